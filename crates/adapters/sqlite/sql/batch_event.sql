SELECT on_complete FROM clinch_batch WHERE batch_id = ?1
