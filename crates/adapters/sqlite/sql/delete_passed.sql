DELETE FROM clinch_passed WHERE seq = ?1
