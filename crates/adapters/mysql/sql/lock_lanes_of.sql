SELECT l.lane FROM (
    SELECT DISTINCT lane FROM clinch_request WHERE op_id IN ({ids}) AND lane IS NOT NULL ORDER BY lane
) AS o STRAIGHT_JOIN clinch_lane AS l ON l.lane = o.lane FOR UPDATE
