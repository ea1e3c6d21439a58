-- With a LIMIT the servers lock the rows in this order.
SELECT l.lane FROM (
    SELECT DISTINCT lane FROM clinch_request WHERE op_id IN ({ids}) AND lane IS NOT NULL{lanes}
    ORDER BY lane LIMIT 1000000
) AS o STRAIGHT_JOIN clinch_lane AS l ON l.lane = o.lane FOR UPDATE
