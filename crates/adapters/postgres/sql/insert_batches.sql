INSERT INTO clinch_batch (batch_id, on_complete, domains, event_types)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) ON CONFLICT DO NOTHING RETURNING batch_id
