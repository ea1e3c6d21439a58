SELECT id, paused, pending, live, waiting, held, completed, failed FROM clinch_domain
