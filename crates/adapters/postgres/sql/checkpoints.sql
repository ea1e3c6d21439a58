SELECT op_id, bytes FROM clinch_checkpoint WHERE op_id = ANY ($1::uuid[])
