SELECT op_id, operations FROM clinch_spawn WHERE op_id = ANY ($1::uuid[])
