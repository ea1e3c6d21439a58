SELECT min(greatest(q.deadline, q.claim_until)), clinch_now()
FROM (
    (SELECT deadline, claim_until FROM clinch_queue
    WHERE next_attempt_at IS NOT NULL AND deadline IS NOT NULL
        AND (claim_until IS NULL OR claim_until <= deadline)
    ORDER BY deadline LIMIT 1)
    UNION ALL
    (SELECT deadline, claim_until FROM clinch_queue
    WHERE next_attempt_at IS NOT NULL AND deadline IS NOT NULL AND claim_until > deadline
    ORDER BY deadline LIMIT 1000)
) AS q
