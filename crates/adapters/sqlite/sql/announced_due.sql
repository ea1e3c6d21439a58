-- The earliest due time of a domain's announced rows: those that nobody has begun yet.
SELECT min(next_attempt_at) FROM clinch_operation INDEXED BY clinch_announced
WHERE line = 2 AND domain = ?1
