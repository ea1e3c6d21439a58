SELECT id, paused, pending, live, recorded, waiting, held, completed, failed, dead_letters_open
FROM clinch_domain
