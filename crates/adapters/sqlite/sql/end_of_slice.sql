-- The last hash of a slice that begins at ?1.
SELECT hash FROM clinch_key_mid WHERE hash >= ?1 ORDER BY hash LIMIT 1 OFFSET ?2
