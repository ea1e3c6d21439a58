SELECT seq, announced_at, rounds, domain, event_type FROM clinch_operation
WHERE line = 2 AND announced_at <= ?1 AND (claim_until IS NULL OR claim_until <= ?1)
ORDER BY announced_at, seq
