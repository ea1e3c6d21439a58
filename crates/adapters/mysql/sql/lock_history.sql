SELECT {history}{request} FROM clinch_request AS r STRAIGHT_JOIN clinch_history AS h ON h.seq = r.seq
WHERE r.op_id IN ({ids}) ORDER BY r.op_id FOR UPDATE
