-- Of all ids of the collection only those of the resource are looked at.
WITH own AS MATERIALIZED (
    SELECT id, kind, "user", resource FROM clinch_document
    WHERE collection = $1 AND "user" = $3 AND $4::text IS NULL AND resource = $5
)
SELECT id, kind, "user", resource FROM own WHERE id > $2 ORDER BY id LIMIT $6
