SELECT id, kind, "user", resource FROM clinch_document
WHERE collection = $1 AND id > $2 AND ($3::text IS NULL OR "user" = $3)
    AND ($4::text IS NULL OR kind = $4) AND ($5::text IS NULL OR resource = $5)
ORDER BY id LIMIT $6
