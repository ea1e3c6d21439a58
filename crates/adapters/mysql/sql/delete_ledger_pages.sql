DELETE FROM clinch_ledger_page WHERE seq IN ({seqs})
