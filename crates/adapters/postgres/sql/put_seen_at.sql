INSERT INTO clinch_clock (seen_at) VALUES ($1) ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at
