INSERT INTO clinch_lane (lane) VALUES {rows}
ON DUPLICATE KEY UPDATE lane = clinch_lane.lane
