SELECT deadline, locked_until FROM clinch_queue FORCE INDEX (overdue)
WHERE deadline IS NOT NULL AND next_retry_at IS NOT NULL ORDER BY deadline, seq LIMIT 200
