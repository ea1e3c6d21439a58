SELECT lane, seq FROM clinch_lane_member WHERE lane = {lane} ORDER BY seq LIMIT {limit}
LOCK IN SHARE MODE
