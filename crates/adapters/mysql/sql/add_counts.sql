INSERT INTO clinch_count (domain, slot, pending, live, recorded, waiting, held, completed, failed,
    dead_letters_open)
VALUES {rows}
ON DUPLICATE KEY UPDATE pending = pending + VALUES(pending), live = live + VALUES(live),
    recorded = recorded + VALUES(recorded), waiting = waiting + VALUES(waiting),
    held = held + VALUES(held), completed = completed + VALUES(completed),
    failed = failed + VALUES(failed), dead_letters_open = dead_letters_open + VALUES(dead_letters_open)
