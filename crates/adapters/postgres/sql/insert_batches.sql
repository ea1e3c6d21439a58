INSERT INTO clinch_batch (batch_id, on_complete)
SELECT * FROM unnest($1::uuid[], $2::text[]) ON CONFLICT DO NOTHING RETURNING batch_id
