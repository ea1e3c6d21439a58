-- When the first row of these streams can be taken. A claim ends, so a row that is claimed may
-- still be free before the first one that is not: only rows before that one are looked at.
SELECT min(first.free_at), clinch_now()
FROM clinch_stream AS s
JOIN clinch_domain AS d ON d.id = s.domain AND NOT d.paused
LEFT JOIN LATERAL (
    SELECT q.next_attempt_at AS due FROM clinch_queue AS q
    WHERE q.line = 1 AND q.stream = s.id AND q.next_attempt_at >= $2
        AND (q.claim_until IS NULL OR q.claim_until <= q.next_attempt_at)
    ORDER BY q.next_attempt_at LIMIT 1
) AS free ON true
CROSS JOIN LATERAL (
    SELECT free.due AS free_at
    UNION ALL
    (SELECT q.claim_until FROM clinch_queue AS q
    WHERE q.line = 1 AND q.stream = s.id AND q.next_attempt_at >= $2
        AND q.next_attempt_at < coalesce(free.due, 9223372036854775807)
        AND q.claim_until > q.next_attempt_at
    ORDER BY q.next_attempt_at LIMIT 1000)
) AS first
WHERE s.id = ANY ($1::integer[])
