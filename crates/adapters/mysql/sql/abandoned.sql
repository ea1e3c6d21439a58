SELECT {queue}, r.trace, q.due_at
FROM clinch_queue AS q FORCE INDEX (due) STRAIGHT_JOIN clinch_request AS r ON r.seq = q.seq
WHERE q.line = {line} AND q.stream = '' AND q.rank_no = 0
    AND q.attempt_id BETWEEN {first} AND {last}
    AND (q.locked_until IS NULL OR q.locked_until <= @clinch_now){routes}
ORDER BY q.due_at, q.seq LIMIT {limit} FOR UPDATE SKIP LOCKED
