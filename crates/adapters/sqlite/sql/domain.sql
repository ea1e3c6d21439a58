SELECT paused, pending, live, recorded, waiting, held, completed, failed, dead_letters_open
FROM clinch_domain WHERE id = ?1
