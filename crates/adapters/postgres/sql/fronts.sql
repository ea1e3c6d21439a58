-- Where the line of each stream begins; one that is empty begins now. Nothing that is to be
-- seen is due before $2.
SELECT s.id, least(min(first.due), clinch_now())
FROM unnest($1::integer[]) AS s (id)
LEFT JOIN LATERAL (
    SELECT q.next_attempt_at AS due FROM clinch_queue AS q
    WHERE q.line = 1 AND q.stream = s.id AND q.next_attempt_at >= $2
    ORDER BY q.next_attempt_at LIMIT 1
) AS first ON true
GROUP BY s.id
