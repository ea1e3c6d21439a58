SELECT seq, status, accepted_at, finished_at FROM clinch_operation ORDER BY seq
