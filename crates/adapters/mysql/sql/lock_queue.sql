SELECT {queue}{request} FROM clinch_request AS r STRAIGHT_JOIN clinch_queue AS q ON q.seq = r.seq
WHERE r.op_id IN ({ids}) ORDER BY r.op_id FOR UPDATE
