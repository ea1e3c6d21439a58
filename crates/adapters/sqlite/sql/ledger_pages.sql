SELECT lines FROM clinch_ledger_page WHERE seq = ?1 ORDER BY page
