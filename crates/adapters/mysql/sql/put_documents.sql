INSERT INTO clinch_document (collection, id, kind, user, resource, body) VALUES {rows}
ON DUPLICATE KEY UPDATE kind = VALUES(kind), user = VALUES(user), resource = VALUES(resource),
    body = VALUES(body)
