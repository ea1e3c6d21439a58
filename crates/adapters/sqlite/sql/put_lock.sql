INSERT INTO clinch_lock (name, owner, until, fence) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (name) DO UPDATE SET
    owner = excluded.owner, until = excluded.until, fence = excluded.fence
