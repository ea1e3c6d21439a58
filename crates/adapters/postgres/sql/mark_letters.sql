UPDATE clinch_dead_letter SET late_ok = true WHERE op_id = ANY ($1::uuid[])
