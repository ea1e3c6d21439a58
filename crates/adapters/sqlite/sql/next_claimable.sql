SELECT next_attempt_at, claim_until FROM clinch_operation
WHERE line = 1 AND domain = ?1 AND event_type = ?2 AND rank = ?3
ORDER BY next_attempt_at, seq
