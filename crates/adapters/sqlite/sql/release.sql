UPDATE clinch_operation SET claim_by = NULL, claim_until = NULL
WHERE op_id = ?1 AND version = ?2 AND claimed_at IS ?3 AND status < 2
RETURNING domain, line
