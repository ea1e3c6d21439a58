SELECT {queue}, r.trace, q.deadline
FROM clinch_queue AS q FORCE INDEX (overdue) STRAIGHT_JOIN clinch_request AS r ON r.seq = q.seq
WHERE q.deadline <= @clinch_now AND q.next_retry_at IS NOT NULL
    AND (q.locked_until IS NULL OR q.locked_until <= @clinch_now){routes}
ORDER BY q.deadline, q.seq LIMIT {limit} FOR UPDATE SKIP LOCKED
