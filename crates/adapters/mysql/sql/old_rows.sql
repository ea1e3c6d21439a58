SELECT {history}{request}
FROM clinch_history AS h FORCE INDEX (by_age) STRAIGHT_JOIN clinch_request AS r ON r.seq = h.seq
WHERE (h.status = 2 AND h.finished_at <= {completed}) OR (h.status = 3 AND h.finished_at <= {failed})
ORDER BY h.finished_at LIMIT {limit} FOR UPDATE SKIP LOCKED
