(SELECT {queue}{request} FROM clinch_request AS r JOIN clinch_queue AS q ON q.seq = r.seq
WHERE {where_queue} ORDER BY r.seq DESC LIMIT {limit})
UNION ALL
(SELECT {history}{request} FROM clinch_request AS r JOIN clinch_history AS h ON h.seq = r.seq
WHERE {where_history} ORDER BY r.seq DESC LIMIT {limit})
ORDER BY seq DESC LIMIT {limit}
