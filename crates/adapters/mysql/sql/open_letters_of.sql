SELECT domain FROM clinch_dead_letter WHERE op_id IN ({ids}) AND status = 0 FOR UPDATE
