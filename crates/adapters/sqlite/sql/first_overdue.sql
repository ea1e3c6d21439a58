SELECT deadline FROM clinch_operation
WHERE next_attempt_at IS NOT NULL AND deadline IS NOT NULL ORDER BY deadline LIMIT 1
