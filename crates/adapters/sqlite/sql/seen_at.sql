SELECT seen_at FROM clinch_clock WHERE id = 1
