SELECT seq, hash FROM clinch_kept_key WHERE settled_at <= ?1 ORDER BY settled_at LIMIT ?2
