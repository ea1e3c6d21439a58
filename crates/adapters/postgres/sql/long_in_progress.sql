-- Without a running attempt by the first begin; with one, or with a recorded answer, by the end of
-- the lease, of which $3 are looked at.
(SELECT op_id FROM clinch_queue WHERE phase IN (1, 2) AND started_at < $1 ORDER BY started_at LIMIT $2)
UNION ALL
(SELECT op_id FROM (
    SELECT op_id, started_at FROM clinch_queue WHERE need = 2 ORDER BY need_at LIMIT $3) AS live
WHERE started_at < $1)
UNION ALL
(SELECT op_id FROM (
    SELECT op_id, started_at FROM clinch_queue WHERE need = 1 ORDER BY need_at LIMIT $3) AS recorded
WHERE started_at < $1)
LIMIT $2
