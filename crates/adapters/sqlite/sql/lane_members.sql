SELECT seq FROM clinch_lane WHERE lane = ?1 ORDER BY follows, seq LIMIT ?2
