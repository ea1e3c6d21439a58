INSERT INTO clinch_document (collection, id, kind, user, resource, body)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (collection, id) DO UPDATE
SET kind = excluded.kind, user = excluded.user, resource = excluded.resource, body = excluded.body
