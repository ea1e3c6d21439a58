SELECT hash, seq FROM clinch_key_new WHERE seq > ?1 ORDER BY seq
