-- Rows of one event type that were announced ?3 times, the last time by ?4, and are not claimed.
SELECT seq, announced_at FROM clinch_operation INDEXED BY clinch_announced
WHERE line = 2 AND domain = ?1 AND event_type = ?2 AND rounds = ?3 AND announced_at <= ?4
    AND (claim_until IS NULL OR claim_until <= ?5)
ORDER BY announced_at, seq LIMIT ?6
