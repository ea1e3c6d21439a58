INSERT INTO clinch_pause (domain, paused_at, actor, reason) VALUES ($1, clinch_now(), $2, $3)
ON CONFLICT (domain) DO NOTHING
