SELECT op_id, accepted_at FROM clinch_operation WHERE next_attempt_at IS NOT NULL OR phase IN (0, 2)
