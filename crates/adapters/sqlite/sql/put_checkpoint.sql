INSERT INTO clinch_checkpoint (seq, bytes) VALUES (?1, ?2)
ON CONFLICT (seq) DO UPDATE SET bytes = excluded.bytes
