SELECT {queue}{request} FROM clinch_queue AS q FORCE INDEX (due)
STRAIGHT_JOIN clinch_request AS r ON r.seq = q.seq
WHERE q.line IN (3, 4) AND q.stream = '' AND q.rank_no = 0 AND q.attempt_id IN ({ids})
