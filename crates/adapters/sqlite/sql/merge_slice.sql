INSERT INTO clinch_key (hash, seq)
SELECT hash, seq FROM clinch_key_mid WHERE hash BETWEEN ?1 AND ?2 ORDER BY hash, seq
