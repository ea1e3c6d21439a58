DELETE FROM clinch_spawn WHERE op_id = ANY ($1::uuid[])
