DELETE FROM clinch_spawn WHERE seq IN ({seqs})
