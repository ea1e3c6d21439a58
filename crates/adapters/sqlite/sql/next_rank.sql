-- The next rank of an event type in a domain's queue: one step of a skip scan.
SELECT rank FROM clinch_operation
WHERE line = 1 AND domain = ?1 AND event_type = ?2 AND rank > ?3
ORDER BY rank LIMIT 1
