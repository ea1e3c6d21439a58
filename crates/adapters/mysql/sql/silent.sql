-- Rows of a stream that were announced {rounds} times, the last time by {by}.
SELECT {queue}, r.trace, q.due_at
FROM clinch_queue AS q FORCE INDEX (due) STRAIGHT_JOIN clinch_request AS r ON r.seq = q.seq
WHERE q.line = 2 AND q.stream = {stream} AND q.rank_no = {rounds} AND q.due_at <= {by}
    AND (q.locked_until IS NULL OR q.locked_until <= @clinch_now)
ORDER BY q.due_at, q.seq LIMIT {limit} FOR UPDATE SKIP LOCKED
