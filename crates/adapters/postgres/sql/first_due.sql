-- When the first row of these streams can be taken. A claim ends, so a free row that is due
-- later may still be the first.
SELECT min(first.free_at), clinch_now()
FROM clinch_stream AS s
JOIN clinch_domain AS d ON d.id = s.domain AND NOT d.paused
CROSS JOIN LATERAL (
    (SELECT q.next_attempt_at AS free_at FROM clinch_queue AS q
    WHERE q.line = 1 AND q.stream = s.id AND q.next_attempt_at >= $2
        AND (q.claim_until IS NULL OR q.claim_until <= q.next_attempt_at)
    ORDER BY q.next_attempt_at LIMIT 1)
    UNION ALL
    (SELECT greatest(q.claim_until, q.next_attempt_at) FROM clinch_queue AS q
    WHERE q.line = 1 AND q.stream = s.id AND q.next_attempt_at >= $2
        AND q.claim_until > q.next_attempt_at
    ORDER BY q.next_attempt_at LIMIT 1000)
) AS first
WHERE s.id = ANY ($1::integer[])
