INSERT INTO clinch_dead_letter SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::text[])
ON CONFLICT DO NOTHING RETURNING op_id
