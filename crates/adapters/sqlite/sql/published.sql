UPDATE clinch_operation SET
    dispatch_no = ?4, announced_at = ?5, rounds = min(coalesce(rounds, 0) + 1, 17),
    claim_by = NULL, claim_until = NULL, line = CASE line WHEN 1 THEN 2 ELSE line END
WHERE op_id = ?1 AND version = ?2 AND claimed_at IS ?3 AND status < 2
