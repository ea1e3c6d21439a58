UPDATE clinch_operation SET ledger = ?2 WHERE seq = ?1
