SELECT seq, status, accepted_at, finished_at FROM clinch_operation
WHERE seq > ?1 ORDER BY seq LIMIT ?2
