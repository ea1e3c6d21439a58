-- Of all ids of the collection only those of the user are looked at.
WITH own AS MATERIALIZED (
    SELECT id FROM clinch_document
    WHERE collection = $1 AND "user" = $3 AND ($4::text IS NULL OR kind = $4)
        AND ($5::text IS NULL OR resource = $5)
)
SELECT id, kind, "user", resource, body FROM clinch_document
WHERE collection = $1 AND "user" = $3 AND id IN (
    SELECT id FROM own WHERE id > $2 ORDER BY id LIMIT $6
)
ORDER BY id
