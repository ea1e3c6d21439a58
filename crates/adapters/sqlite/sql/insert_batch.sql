INSERT INTO clinch_batch (batch_id, sealed, total, completed, failed, on_complete, domains,
    event_types)
VALUES (?1, 0, 0, 0, 0, ?2, ?3, ?4) ON CONFLICT DO NOTHING
