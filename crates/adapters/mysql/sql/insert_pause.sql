INSERT INTO clinch_pause (domain, paused_at, actor, reason) VALUES {values}
ON DUPLICATE KEY UPDATE domain = VALUES(domain)
