SELECT {queue}{request}{claim}
FROM clinch_queue AS q FORCE INDEX (due) STRAIGHT_JOIN clinch_request AS r ON r.seq = q.seq
WHERE q.line = 1 AND q.stream = {stream} AND q.rank_no = {rank} AND q.due_at <= @clinch_now
    AND (q.locked_until IS NULL OR q.locked_until <= @clinch_now)
    AND (q.deadline IS NULL OR q.deadline > @clinch_now){others}
ORDER BY q.due_at, q.seq LIMIT {limit} FOR UPDATE SKIP LOCKED
