SELECT q.op_id, q.deadline FROM clinch_queue AS q
WHERE q.next_attempt_at IS NOT NULL AND q.deadline IS NOT NULL AND q.deadline <= $1
    AND (q.claim_until IS NULL OR q.claim_until <= $1) AND q.stream = ANY ($2::integer[])
ORDER BY q.deadline, q.seq LIMIT $3
FOR UPDATE SKIP LOCKED
