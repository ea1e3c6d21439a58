INSERT INTO clinch_pause (domain, paused_at, actor, reason) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (domain) DO NOTHING
