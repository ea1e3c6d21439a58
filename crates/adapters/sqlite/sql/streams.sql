-- The next pair of event type and rank in a domain's line: a step of a skip scan.
SELECT event_type, rank FROM clinch_operation
WHERE line = 1 AND domain = ?1 AND (event_type, rank) > (?2, ?3)
ORDER BY event_type, rank LIMIT 1
