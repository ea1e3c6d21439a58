SELECT due_at FROM clinch_queue FORCE INDEX (due)
WHERE line = 1 AND stream = {stream} AND rank_no = {rank} ORDER BY due_at LIMIT 1
