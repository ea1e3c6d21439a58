INSERT INTO clinch_key_new (seq, hash) VALUES (?1, ?2)
