-- The earliest due time of announced rows that have not begun.
SELECT next_attempt_at FROM clinch_operation INDEXED BY clinch_announced_due
WHERE line = 2 AND domain = ?1 AND event_type = ?2 ORDER BY next_attempt_at LIMIT 1
