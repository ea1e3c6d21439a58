UPDATE clinch_operation SET claim_by = ?2, claim_until = ?3, claimed_at = ?4 WHERE seq = ?1
RETURNING op_id, domain, event_type, dispatch_no, version, fence
