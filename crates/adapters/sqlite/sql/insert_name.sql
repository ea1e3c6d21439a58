INSERT INTO clinch_name (text) VALUES (?1)
