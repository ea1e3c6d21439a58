SELECT seen_at, clinch_now() FROM clinch_clock
