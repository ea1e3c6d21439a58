SELECT sealed, total, completed, failed, completed_at, domains, event_types, on_complete
FROM clinch_batch WHERE batch_id = ?1
