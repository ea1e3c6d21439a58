-- The next event type in a domain's queue: one step of a skip scan.
SELECT event_type FROM clinch_operation
WHERE line = 1 AND domain = ?1 AND event_type > ?2
ORDER BY event_type LIMIT 1
