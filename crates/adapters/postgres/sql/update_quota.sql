UPDATE clinch_quota SET quota_limit = $2, remaining = $3, reset_at = $4, asking_until = $5,
    blocked_until = $6, ends_at = greatest($4::bigint, $5::bigint, $6::bigint, 0)
WHERE key = $1
