DELETE FROM clinch_batch WHERE completed_at <= {before} ORDER BY completed_at LIMIT {limit}
