INSERT INTO clinch_checkpoint (seq, bytes) VALUES {row}
ON DUPLICATE KEY UPDATE bytes = VALUES(bytes)
