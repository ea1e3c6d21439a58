DELETE FROM clinch_operation WHERE seq = ?1
