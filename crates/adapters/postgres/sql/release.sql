UPDATE clinch_queue AS q SET claim_by = NULL, claim_until = NULL
FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS c (op_id, version, claimed_at)
WHERE q.op_id = ANY (ARRAY[c.op_id]) AND q.version = c.version AND q.claimed_at = c.claimed_at
RETURNING q.stream, q.line
