DELETE FROM clinch_queue WHERE seq IN ({seqs})
