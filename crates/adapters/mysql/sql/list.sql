(SELECT {queue}{request} FROM {from_queue}
WHERE {where_queue} ORDER BY r.seq DESC LIMIT {limit})
UNION ALL
(SELECT {history}{request} FROM {from_history}
WHERE {where_history} ORDER BY r.seq DESC LIMIT {limit})
ORDER BY seq DESC LIMIT {limit}
