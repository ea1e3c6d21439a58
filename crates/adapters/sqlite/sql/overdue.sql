SELECT seq, deadline, domain, event_type FROM clinch_operation
WHERE next_attempt_at IS NOT NULL AND deadline IS NOT NULL AND deadline <= ?1
    AND (claim_until IS NULL OR claim_until <= ?1)
ORDER BY deadline, seq
