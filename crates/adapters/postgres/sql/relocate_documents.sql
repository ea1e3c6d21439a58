-- Locks are taken in the order of ids, first in the one collection, then in the other.
WITH moved AS (
    DELETE FROM clinch_document WHERE collection = $1 AND id = ANY($3::text[])
    RETURNING id, kind, "user", resource, body
), stored AS (
    INSERT INTO clinch_document (collection, id, kind, "user", resource, body)
    SELECT $2, id, kind, "user", resource, body FROM moved ORDER BY id
    ON CONFLICT (collection, id) DO UPDATE SET kind = excluded.kind, "user" = excluded."user",
        resource = excluded.resource, body = excluded.body
    RETURNING 1
)
SELECT count(*) FROM stored
