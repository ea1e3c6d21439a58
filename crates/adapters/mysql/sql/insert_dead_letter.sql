INSERT INTO clinch_dead_letter (op_id, failed_at, letter) VALUES {row}
ON DUPLICATE KEY UPDATE op_id = clinch_dead_letter.op_id
