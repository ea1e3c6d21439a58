INSERT INTO clinch_batch (batch_id, sealed, total, completed, failed, on_complete)
VALUES (?1, 0, 0, 0, 0, ?2) ON CONFLICT DO NOTHING
