SELECT q.op_id, q.need_at FROM clinch_queue AS q
WHERE q.need = $1 AND q.need_at <= $2 AND (q.claim_until IS NULL OR q.claim_until <= $2)
    AND q.stream = ANY ($3::integer[])
ORDER BY q.need_at, q.seq LIMIT $4
FOR UPDATE SKIP LOCKED
