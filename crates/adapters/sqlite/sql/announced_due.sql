-- The earliest due time of a domain's announced rows that have not begun, by event type.
SELECT event_type, min(next_attempt_at) FROM clinch_operation INDEXED BY clinch_announced
WHERE line = 2 AND domain = ?1 GROUP BY event_type
