SELECT id, name FROM clinch_worker WHERE id = ANY ($1::integer[])
