DELETE FROM clinch_record WHERE key = ?1
