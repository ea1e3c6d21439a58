SELECT bytes FROM clinch_checkpoint WHERE seq = ?1
