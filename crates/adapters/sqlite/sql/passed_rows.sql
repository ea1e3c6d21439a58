-- Operations that pruning has passed by, and what became of them.
SELECT p.seq, o.status, o.finished_at
FROM clinch_passed AS p LEFT JOIN clinch_operation AS o ON o.seq = p.seq
WHERE p.seq > ?1 ORDER BY p.seq LIMIT ?2
