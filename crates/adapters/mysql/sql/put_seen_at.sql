INSERT INTO clinch_clock (id, seen_at) VALUES (1, {seen_at}) ON DUPLICATE KEY UPDATE seen_at = {seen_at}
