DELETE FROM clinch_key_new WHERE hash = ?1 AND seq = ?2
