UPDATE clinch_operation SET redriven_by = ?2 WHERE op_id = ?1
