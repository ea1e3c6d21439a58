INSERT INTO clinch_checkpoint SELECT * FROM unnest($1::uuid[], $2::bytea[])
ON CONFLICT (op_id) DO UPDATE SET bytes = excluded.bytes
