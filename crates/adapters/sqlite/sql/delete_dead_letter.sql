DELETE FROM clinch_dead_letter WHERE op_id = ?1 RETURNING status
