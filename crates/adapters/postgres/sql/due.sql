-- Claims rows of these streams that are due and free, in the order of service.
WITH found AS (
    SELECT q.op_id, s.rank, q.next_attempt_at, q.seq
    FROM clinch_stream AS s
    JOIN clinch_domain AS d ON d.id = s.domain AND NOT d.paused
    CROSS JOIN LATERAL (
        SELECT c.op_id, c.next_attempt_at, c.seq FROM clinch_queue AS c
        WHERE c.line = 1 AND c.stream = s.id AND c.next_attempt_at <= $2
            AND (c.claim_until IS NULL OR c.claim_until <= $2)
            AND (c.deadline IS NULL OR c.deadline > $2)
        ORDER BY c.next_attempt_at, c.seq LIMIT $3
        FOR UPDATE SKIP LOCKED
    ) AS q
    WHERE s.id = ANY ($1::integer[])
    ORDER BY s.rank, q.next_attempt_at, q.seq LIMIT $3
)
SELECT op_id, next_attempt_at FROM found ORDER BY rank, next_attempt_at, seq
