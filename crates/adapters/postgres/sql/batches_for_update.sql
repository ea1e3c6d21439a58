SELECT batch_id, sealed, total, completed, failed, completed_at, domains, event_types,
    on_complete
FROM clinch_batch WHERE batch_id = ANY ($1::uuid[]) ORDER BY batch_id FOR UPDATE
