DELETE FROM clinch_key_new WHERE seq = ?1
