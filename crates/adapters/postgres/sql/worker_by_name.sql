SELECT id FROM clinch_worker WHERE name = $1
