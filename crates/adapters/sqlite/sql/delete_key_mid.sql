DELETE FROM clinch_key_mid WHERE hash = ?1 AND seq = ?2
