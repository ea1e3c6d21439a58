UPDATE clinch_dead_letter SET status = ?2, mark = ?3 WHERE op_id = ?1 AND status = ?4
