INSERT INTO clinch_record (key, version, body) VALUES (?1, 1, ?2)
ON CONFLICT (key) DO UPDATE SET version = version + 1, body = excluded.body
