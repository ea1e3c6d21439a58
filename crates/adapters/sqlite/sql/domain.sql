SELECT paused, pending, live, recorded, waiting, held, completed, failed FROM clinch_domain WHERE id = ?1
