SELECT deadline, claim_until FROM clinch_operation
WHERE next_attempt_at IS NOT NULL AND deadline IS NOT NULL ORDER BY deadline, seq
