-- Announced rows that nobody has begun for longer than their pause.
SELECT q.op_id, q.announced_at FROM clinch_queue AS q
JOIN clinch_stream AS s ON s.id = q.stream
JOIN clinch_domain AS d ON d.id = s.domain AND NOT d.paused
WHERE q.line = 2 AND q.announced_at <= $1 AND (q.claim_until IS NULL OR q.claim_until <= $1)
    AND q.announced_at + least($2 * (1::bigint << least(coalesce(q.rounds, 1) - 1, 16)), $3) <= $1
    AND q.stream = ANY ($4::integer[])
ORDER BY q.announced_at, q.seq LIMIT $5
FOR UPDATE OF q SKIP LOCKED
