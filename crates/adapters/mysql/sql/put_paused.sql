INSERT INTO clinch_domain (domain, paused) VALUES ({domain}, {paused})
ON DUPLICATE KEY UPDATE paused = VALUES(paused)
