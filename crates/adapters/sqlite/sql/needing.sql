SELECT seq, need_at, domain, event_type FROM clinch_operation
WHERE need = ?1 AND need_at <= ?2 AND (claim_until IS NULL OR claim_until <= ?2)
ORDER BY need_at, seq
