-- The earliest due time of each event type in each domain: of fresh rows, and of announced ones
-- that nobody has begun yet. Nothing of the streams $2 is due before $3.
SELECT s.domain, s.event_type, min(first.due) FROM clinch_stream AS s
CROSS JOIN LATERAL (
    SELECT q.next_attempt_at AS due FROM clinch_queue AS q
    WHERE q.line = 1 AND q.stream = s.id AND q.next_attempt_at <= $1
        AND q.next_attempt_at >= coalesce((
            SELECT f.at FROM unnest($2::integer[], $3::bigint[]) AS f (id, at) WHERE f.id = s.id
        ), -9223372036854775808)
    ORDER BY q.next_attempt_at LIMIT 1
) AS first GROUP BY s.domain, s.event_type
UNION ALL
SELECT s.domain, s.event_type, min(first.due) FROM clinch_stream AS s
CROSS JOIN LATERAL (
    SELECT q.next_attempt_at AS due FROM clinch_queue AS q
    WHERE q.line = 2 AND q.stream = s.id ORDER BY q.next_attempt_at LIMIT 1
) AS first GROUP BY s.domain, s.event_type
