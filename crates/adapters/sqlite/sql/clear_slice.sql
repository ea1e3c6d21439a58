DELETE FROM clinch_key_mid WHERE hash BETWEEN ?1 AND ?2
