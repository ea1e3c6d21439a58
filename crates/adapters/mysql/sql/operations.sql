SELECT {queue}{request} FROM clinch_request AS r JOIN clinch_queue AS q ON q.seq = r.seq
WHERE r.op_id IN ({ids})
UNION ALL
SELECT {history}{request} FROM clinch_request AS r JOIN clinch_history AS h ON h.seq = r.seq
WHERE r.op_id IN ({ids})
