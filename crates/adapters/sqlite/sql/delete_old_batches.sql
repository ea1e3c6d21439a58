DELETE FROM clinch_batch WHERE batch_id IN (
    SELECT batch_id FROM clinch_batch INDEXED BY clinch_batch_by_age
    WHERE completed_at IS NOT NULL AND completed_at <= ?1 ORDER BY completed_at LIMIT ?2)
