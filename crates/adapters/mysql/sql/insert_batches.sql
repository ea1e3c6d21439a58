INSERT INTO clinch_batch (batch_id, on_complete, domains, event_types) VALUES {row}
ON DUPLICATE KEY UPDATE batch_id = clinch_batch.batch_id
