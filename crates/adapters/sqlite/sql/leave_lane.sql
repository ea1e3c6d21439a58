DELETE FROM clinch_lane WHERE lane = ?1 AND seq = ?2
