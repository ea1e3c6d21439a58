SELECT domain, CAST(SUM(pending) AS SIGNED), CAST(SUM(live) AS SIGNED), CAST(SUM(recorded) AS SIGNED),
    CAST(SUM(waiting) AS SIGNED), CAST(SUM(held) AS SIGNED), CAST(SUM(completed) AS SIGNED),
    CAST(SUM(failed) AS SIGNED), CAST(SUM(dead_letters_open) AS SIGNED)
FROM clinch_count GROUP BY domain
