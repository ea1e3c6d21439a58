INSERT INTO clinch_lane (lane, follows, seq) VALUES (?1, 1, ?2)
