-- The next event type among a domain's announced rows: one step of a skip scan.
SELECT event_type FROM clinch_operation INDEXED BY clinch_announced
WHERE line = 2 AND domain = ?1 AND event_type > ?2
ORDER BY event_type LIMIT 1
