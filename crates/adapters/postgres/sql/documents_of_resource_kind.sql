SELECT id, kind, "user", resource, body FROM clinch_document
WHERE collection = $1 AND id > $2 AND "user" = $3 AND kind = $4 AND resource = $5
ORDER BY id LIMIT $6
