INSERT INTO clinch_clock (id, seen_at) VALUES (1, ?1) ON CONFLICT (id) DO UPDATE SET seen_at = ?1
