DELETE FROM clinch_request WHERE seq IN ({seqs})
