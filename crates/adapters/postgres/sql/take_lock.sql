INSERT INTO clinch_lock AS l (name, owner, until, fence)
VALUES ($1, $2, clinch_now() + $3, 1)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until,
    fence = CASE WHEN clinch_now() < l.until THEN l.fence ELSE l.fence + 1 END
WHERE l.owner = excluded.owner OR clinch_now() >= l.until
RETURNING l.fence
