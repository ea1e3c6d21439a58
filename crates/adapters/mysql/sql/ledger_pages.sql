SELECT lines_of FROM clinch_ledger_page WHERE seq = {seq} ORDER BY page
