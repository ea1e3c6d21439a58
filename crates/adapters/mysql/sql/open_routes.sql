SELECT r.domain, r.event_type, COUNT(*)
FROM clinch_queue AS q STRAIGHT_JOIN clinch_request AS r ON r.seq = q.seq
GROUP BY r.domain, r.event_type
