SELECT seq, operations FROM clinch_spawn WHERE seq IN ({seqs})
