SELECT q.op_id, q.need_at FROM clinch_queue AS q
WHERE q.need = 2 AND q.attempt_id BETWEEN $1 AND $2
    AND (q.claim_until IS NULL OR q.claim_until <= $3) AND q.stream = ANY ($4::integer[])
ORDER BY q.need_at, q.seq LIMIT $5
FOR UPDATE SKIP LOCKED
