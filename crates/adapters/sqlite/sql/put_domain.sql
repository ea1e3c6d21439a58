INSERT INTO clinch_domain
    (id, paused, pending, live, recorded, waiting, held, completed, failed, dead_letters_open)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT (id) DO UPDATE SET
    paused = excluded.paused, pending = excluded.pending, live = excluded.live,
    recorded = excluded.recorded, waiting = excluded.waiting, held = excluded.held,
    completed = excluded.completed, failed = excluded.failed,
    dead_letters_open = excluded.dead_letters_open
