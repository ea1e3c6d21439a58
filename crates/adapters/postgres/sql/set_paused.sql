INSERT INTO clinch_domain (name, paused, used) VALUES ($1, $2, true)
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused, used = true
