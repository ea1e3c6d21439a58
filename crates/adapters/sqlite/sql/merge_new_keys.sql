INSERT INTO clinch_key_mid (hash, seq) SELECT hash, seq FROM clinch_key_new ORDER BY hash, seq
