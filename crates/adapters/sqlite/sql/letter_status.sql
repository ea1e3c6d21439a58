SELECT domain, mark FROM clinch_dead_letter WHERE op_id = ?1 AND status IS NOT NULL
