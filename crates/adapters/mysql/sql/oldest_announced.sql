SELECT r.domain, r.event_type, MIN(q.next_retry_at)
FROM clinch_queue AS q JOIN clinch_request AS r ON r.seq = q.seq
WHERE q.line = 2 GROUP BY r.domain, r.event_type
