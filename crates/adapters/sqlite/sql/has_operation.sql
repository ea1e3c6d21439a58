SELECT 1 FROM clinch_operation WHERE op_id = ?1
