UPDATE clinch_store SET last_seq = ?1, keys_new = ?2, keys_mid = ?3, keys_from = ?4
