INSERT INTO clinch_stream (domain, event_type, rank)
SELECT id, $2, $3 FROM clinch_domain WHERE name = $1 ON CONFLICT DO NOTHING
