SELECT batch_id, sealed, total, completed, failed, completed_at, domains, event_types
FROM clinch_batch WHERE batch_id < ?1 ORDER BY batch_id DESC LIMIT ?2
