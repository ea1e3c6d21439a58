UPDATE clinch_lane SET follows = 0 WHERE lane = ?1 AND follows = 1 AND seq = ?2
