INSERT INTO clinch_lane_member (lane, seq) VALUES {rows}
