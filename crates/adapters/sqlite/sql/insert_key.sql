INSERT INTO clinch_key (hash, seq) VALUES (?1, ?2)
