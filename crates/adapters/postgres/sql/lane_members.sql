-- The first open operations of each lane.
SELECT l.lane, q.seq, q.op_id FROM unnest($1::bytea[]) AS l (lane)
CROSS JOIN LATERAL (
    SELECT c.seq, c.op_id FROM clinch_queue AS c WHERE c.lane = l.lane ORDER BY c.seq LIMIT $2
) AS q
