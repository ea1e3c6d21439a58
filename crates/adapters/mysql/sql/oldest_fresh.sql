SELECT stream, rank_no, MIN(due_at) FROM clinch_queue FORCE INDEX (due) WHERE line = 1
GROUP BY stream, rank_no
