SELECT announced_due FROM clinch_queue FORCE INDEX (announced)
WHERE announced_stream = {stream} ORDER BY announced_due LIMIT 1
