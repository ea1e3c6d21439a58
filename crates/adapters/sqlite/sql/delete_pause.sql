DELETE FROM clinch_pause WHERE domain = ?1
