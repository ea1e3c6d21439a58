-- Announced rows that nobody has begun for longer than their pause. The pause depends on how often
-- a row was announced, at most 17 times.
SELECT q.op_id, q.announced_at FROM clinch_stream AS s
JOIN clinch_domain AS d ON d.id = s.domain AND NOT d.paused
CROSS JOIN generate_series(1, 17) AS r (rounds)
CROSS JOIN LATERAL (
    SELECT c.op_id, c.announced_at, c.seq FROM clinch_queue AS c
    WHERE c.line = 2 AND c.stream = s.id AND c.rounds = r.rounds
        AND c.announced_at <= $1 - least($2 * (1::bigint << (r.rounds - 1)), $3)
        AND (c.claim_until IS NULL OR c.claim_until <= $1)
    ORDER BY c.announced_at, c.seq LIMIT $5
    FOR UPDATE SKIP LOCKED
) AS q
WHERE s.id = ANY ($4::integer[])
ORDER BY q.announced_at, q.seq LIMIT $5
