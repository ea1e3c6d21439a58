SELECT d.id, d.name, d.paused,
    (d.pending + coalesce(s.pending, 0))::bigint, (d.live + coalesce(s.live, 0))::bigint,
    (d.recorded + coalesce(s.recorded, 0))::bigint, (d.waiting + coalesce(s.waiting, 0))::bigint,
    (d.held + coalesce(s.held, 0))::bigint, (d.completed + coalesce(s.completed, 0))::bigint,
    (d.failed + coalesce(s.failed, 0))::bigint, clinch_now()
FROM clinch_domain AS d
LEFT JOIN (
    SELECT domain, sum(pending) AS pending, sum(live) AS live, sum(recorded) AS recorded,
        sum(waiting) AS waiting, sum(held) AS held, sum(completed) AS completed,
        sum(failed) AS failed
    FROM clinch_delta GROUP BY domain
) AS s ON s.domain = d.id
WHERE d.used OR d.paused OR s.domain IS NOT NULL
ORDER BY d.name
