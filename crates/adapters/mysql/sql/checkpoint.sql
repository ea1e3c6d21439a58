SELECT seq, bytes FROM clinch_checkpoint WHERE seq IN ({seqs})
