SELECT min(greatest(q.need_at, q.claim_until)), clinch_now()
FROM (
    (SELECT need_at, claim_until FROM clinch_queue
    WHERE need = $1 AND (claim_until IS NULL OR claim_until <= need_at)
    ORDER BY need_at LIMIT 1)
    UNION ALL
    (SELECT need_at, claim_until FROM clinch_queue
    WHERE need = $1 AND claim_until > need_at ORDER BY need_at LIMIT 1000)
) AS q
