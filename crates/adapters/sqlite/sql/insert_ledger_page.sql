INSERT INTO clinch_ledger_page (seq, page, lines)
SELECT ?1, coalesce(max(page), 0) + 1, ?2 FROM clinch_ledger_page WHERE seq = ?1
