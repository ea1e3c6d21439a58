SELECT d.name, s.event_type, count(*)
FROM clinch_queue AS q JOIN clinch_stream AS s ON s.id = q.stream
    JOIN clinch_domain AS d ON d.id = s.domain
GROUP BY d.name, s.event_type
