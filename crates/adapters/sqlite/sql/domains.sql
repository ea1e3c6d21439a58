SELECT id, paused, pending, live, recorded, waiting, held, completed, failed FROM clinch_domain
