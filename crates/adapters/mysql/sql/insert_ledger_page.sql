INSERT INTO clinch_ledger_page (seq, lines_of) VALUES {row}
