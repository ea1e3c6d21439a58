-- An operator ends a pause: tells every node. As at the end of a pause the burst is spent.
WITH ended AS (
    UPDATE clinch_rate
    SET paused_until = 0, arrival = least(arrival, clinch_now_us() + $2::bigint)
    WHERE destination = $1 AND paused_until > clinch_now_us()
)
SELECT pg_notify('clinch_pause', '0 ' || $1)
