SELECT seq FROM clinch_operation INDEXED BY clinch_failed
WHERE status = 3 AND finished_at <= ?1 ORDER BY finished_at LIMIT ?2
