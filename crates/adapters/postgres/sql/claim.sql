-- Stamps rows with a claim.
UPDATE clinch_queue AS q SET claim_by = $2, claim_until = $3, claimed_at = $4
WHERE q.op_id = ANY ($1::uuid[])
RETURNING q.op_id, q.stream, q.dispatch_no, q.version, q.state, q.lane, q.extras
