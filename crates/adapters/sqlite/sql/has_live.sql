SELECT 1 FROM clinch_operation WHERE need = 2 AND substr(attempt_id, 1, 8) = ?1 LIMIT 1
