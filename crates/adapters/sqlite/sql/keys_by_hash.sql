SELECT seq FROM clinch_key WHERE hash = ?1
