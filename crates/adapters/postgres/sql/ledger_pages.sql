SELECT lines FROM clinch_ledger_page WHERE op_id = $1 ORDER BY page
