-- Due rows of one stream that are not claimed, in the order of service.
SELECT next_attempt_at, seq FROM clinch_operation
WHERE line = 1 AND domain = ?1 AND event_type = ?2 AND rank = ?3 AND next_attempt_at <= ?4
    AND (claim_until IS NULL OR claim_until <= ?4) AND (deadline IS NULL OR deadline > ?4)
ORDER BY next_attempt_at, seq LIMIT ?5
