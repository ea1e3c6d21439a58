UPDATE clinch_dead_letter SET late_ok = 1 WHERE op_id = {id}
