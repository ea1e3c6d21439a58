-- Folds what commits have added into the counters; one at a time, the others pass by.
WITH turn AS (
    SELECT pg_try_advisory_xact_lock(7166012, 1) AS is_ours
), gone AS (
    DELETE FROM clinch_delta WHERE id = ANY (ARRAY(
        SELECT id FROM clinch_delta WHERE (SELECT is_ours FROM turn) ORDER BY id LIMIT 10000))
    RETURNING *
), sums AS (
    SELECT domain, sum(pending)::bigint AS pending, sum(live)::bigint AS live,
        sum(recorded)::bigint AS recorded, sum(waiting)::bigint AS waiting,
        sum(held)::bigint AS held, sum(completed)::bigint AS completed,
        sum(failed)::bigint AS failed, sum(dead_letters_open)::bigint AS dead_letters_open
    FROM gone GROUP BY domain
)
UPDATE clinch_domain AS d SET used = true, pending = d.pending + s.pending,
    live = d.live + s.live, recorded = d.recorded + s.recorded, waiting = d.waiting + s.waiting,
    held = d.held + s.held, completed = d.completed + s.completed, failed = d.failed + s.failed,
    dead_letters_open = d.dead_letters_open + s.dead_letters_open
FROM sums AS s WHERE d.id = s.domain
