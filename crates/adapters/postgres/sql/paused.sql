SELECT id FROM clinch_domain WHERE paused
