DELETE FROM clinch_dead_letter WHERE op_id IN ({ids})
