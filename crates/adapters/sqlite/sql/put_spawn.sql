INSERT INTO clinch_spawn (seq, operations) VALUES (?1, ?2)
ON CONFLICT (seq) DO UPDATE SET operations = excluded.operations
