SELECT seen_at FROM clinch_clock FOR UPDATE
