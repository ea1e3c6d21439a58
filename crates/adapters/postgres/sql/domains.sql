SELECT d.id, d.name, d.paused,
    (d.pending + coalesce(s.pending, 0))::bigint, (d.live + coalesce(s.live, 0))::bigint,
    (d.recorded + coalesce(s.recorded, 0))::bigint, (d.waiting + coalesce(s.waiting, 0))::bigint,
    (d.held + coalesce(s.held, 0))::bigint, (d.completed + coalesce(s.completed, 0))::bigint,
    (d.failed + coalesce(s.failed, 0))::bigint, clinch_now(),
    (d.dead_letters_open + coalesce(s.dead_letters_open, 0))::bigint,
    p.paused_at, p.actor, p.reason
FROM clinch_domain AS d
LEFT JOIN (
    SELECT domain, sum(pending) AS pending, sum(live) AS live, sum(recorded) AS recorded,
        sum(waiting) AS waiting, sum(held) AS held, sum(completed) AS completed,
        sum(failed) AS failed, sum(dead_letters_open) AS dead_letters_open
    FROM clinch_delta GROUP BY domain
) AS s ON s.domain = d.id
LEFT JOIN clinch_pause AS p ON d.paused AND p.domain = d.name
WHERE d.used OR d.paused OR s.domain IS NOT NULL
ORDER BY d.name
