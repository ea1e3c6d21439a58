INSERT INTO clinch_quota AS q (key, ends_at) VALUES ($1, 0)
ON CONFLICT (key) DO UPDATE SET ends_at = q.ends_at
RETURNING q.quota_limit, q.remaining, q.reset_at, q.asking_until, q.blocked_until, clinch_now()
