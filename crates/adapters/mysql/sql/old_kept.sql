SELECT key_hash FROM clinch_kept WHERE settled_at <= {before} ORDER BY settled_at LIMIT {limit}
FOR UPDATE SKIP LOCKED
