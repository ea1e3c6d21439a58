INSERT INTO clinch_dead_letter (op_id, failed_at, letter) VALUES (?1, ?2, ?3)
ON CONFLICT DO NOTHING
