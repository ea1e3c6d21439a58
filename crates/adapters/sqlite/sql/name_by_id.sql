SELECT text FROM clinch_name WHERE id = ?1
