SELECT r.op_id, s.operations FROM clinch_request AS r JOIN clinch_spawn AS s ON s.seq = r.seq
WHERE r.op_id IN ({ids})
