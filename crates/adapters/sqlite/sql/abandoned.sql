SELECT seq, need_at, domain, event_type FROM clinch_operation
WHERE need = 2 AND substr(attempt_id, 1, 8) = ?1 AND (claim_until IS NULL OR claim_until <= ?2)
ORDER BY need_at, seq
