SELECT name FROM clinch_domain WHERE paused
