INSERT INTO clinch_key_new (hash, seq) VALUES (?1, ?2)
