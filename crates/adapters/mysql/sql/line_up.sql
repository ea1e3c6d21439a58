-- Puts the new head of a lane into the queue.
UPDATE clinch_queue AS q JOIN clinch_request AS r ON r.seq = q.seq SET
    q.stream = CONCAT(r.domain, X'00', r.event_type),
    q.rank_no = IF(q.announced_at IS NULL, r.rank_no, GREATEST(q.rounds, 1)),
    q.due_at = COALESCE(q.announced_at, q.next_retry_at),
    q.line = IF(q.announced_at IS NULL, 1, 2)
WHERE q.seq = {seq} AND q.next_retry_at IS NOT NULL
