UPDATE clinch_operation SET ledger = ?2, flags = ?3 WHERE seq = ?1
