UPDATE clinch_store SET last_seq = ?1
