SELECT letter FROM clinch_dead_letter WHERE (failed_at, op_id) < (?1, ?2)
ORDER BY failed_at DESC, op_id DESC LIMIT ?3
