INSERT INTO clinch_spawn SELECT * FROM unnest($1::uuid[], $2::text[])
ON CONFLICT (op_id) DO UPDATE SET operations = excluded.operations
