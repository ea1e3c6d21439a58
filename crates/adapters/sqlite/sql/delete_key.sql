DELETE FROM clinch_key WHERE hash = ?1 AND seq = ?2
