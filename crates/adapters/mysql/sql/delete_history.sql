DELETE FROM clinch_history WHERE seq IN ({seqs})
