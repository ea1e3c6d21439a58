DELETE FROM clinch_spawn WHERE seq = ?1
