UPDATE clinch_batch SET completed_at = ?2, on_complete = NULL WHERE batch_id = ?1
