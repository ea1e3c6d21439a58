-- The earliest due time in each domain: of fresh rows, and of announced ones that nobody has
-- begun yet.
SELECT s.domain, min(first.due) FROM clinch_stream AS s
CROSS JOIN LATERAL (
    SELECT q.next_attempt_at AS due FROM clinch_queue AS q
    WHERE q.line = 1 AND q.stream = s.id AND q.next_attempt_at <= $1
    ORDER BY q.next_attempt_at LIMIT 1
) AS first GROUP BY s.domain
UNION ALL
SELECT s.domain, min(q.next_attempt_at) FROM clinch_queue AS q
JOIN clinch_stream AS s ON s.id = q.stream WHERE q.line = 2 GROUP BY s.domain
