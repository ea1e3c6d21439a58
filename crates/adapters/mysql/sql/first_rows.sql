SELECT due_at, locked_until FROM clinch_queue FORCE INDEX (due)
WHERE line = {line} AND stream = {stream} AND rank_no = {rank} ORDER BY due_at, seq LIMIT 200
