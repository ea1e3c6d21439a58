SELECT id FROM clinch_name WHERE text = ?1
