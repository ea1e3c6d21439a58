SELECT {history}{request}
FROM clinch_history AS h FORCE INDEX (by_status_and_age)
STRAIGHT_JOIN clinch_request AS r ON r.seq = h.seq
WHERE h.status = {status} AND h.finished_at <= {before}
ORDER BY h.finished_at LIMIT {limit} FOR UPDATE SKIP LOCKED
