SELECT op_id FROM clinch_request WHERE op_id IN ({ids})
