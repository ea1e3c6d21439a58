DELETE FROM clinch_checkpoint WHERE seq IN ({seqs})
