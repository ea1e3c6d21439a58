FROM clinch_dead_letter AS l WHERE l.op_id = ?1 AND l.status IS NOT NULL
