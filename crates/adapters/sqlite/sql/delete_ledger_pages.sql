DELETE FROM clinch_ledger_page WHERE seq = ?1
