SELECT paused, pending, live, waiting, held, completed, failed FROM clinch_domain WHERE id = ?1
