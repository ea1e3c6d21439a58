-- Without a running attempt by the first begin; with one, or with a recorded answer, by the end of
-- the lease, of which {live} are looked at.
(SELECT r.op_id FROM clinch_queue AS q FORCE INDEX (unsettled)
STRAIGHT_JOIN clinch_request AS r ON r.seq = q.seq
WHERE q.unsettled_since < {before} ORDER BY q.unsettled_since LIMIT {limit})
UNION ALL
(SELECT r.op_id FROM (
    SELECT seq, started_at FROM clinch_queue FORCE INDEX (due)
    WHERE line = 4 AND stream = '' AND rank_no = 0 ORDER BY due_at LIMIT {live}
) AS q STRAIGHT_JOIN clinch_request AS r ON r.seq = q.seq
WHERE q.started_at < {before})
UNION ALL
(SELECT r.op_id FROM (
    SELECT seq, started_at FROM clinch_queue FORCE INDEX (due)
    WHERE line = 3 AND stream = '' AND rank_no = 0 ORDER BY due_at LIMIT {live}
) AS q STRAIGHT_JOIN clinch_request AS r ON r.seq = q.seq
WHERE q.started_at < {before})
LIMIT {limit}
