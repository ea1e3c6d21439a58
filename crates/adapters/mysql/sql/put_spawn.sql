INSERT INTO clinch_spawn (seq, operations) VALUES {row}
ON DUPLICATE KEY UPDATE operations = VALUES(operations)
