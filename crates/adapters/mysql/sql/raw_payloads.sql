SELECT op_id, payload FROM clinch_request WHERE op_id IN ({ids}) LOCK IN SHARE MODE
