INSERT INTO clinch_document (collection, id, kind, user, resource, body)
SELECT {to}, id, kind, user, resource, body FROM clinch_document
WHERE collection = {from} AND id IN ({ids}) ORDER BY id
ON DUPLICATE KEY UPDATE kind = VALUES(kind), user = VALUES(user), resource = VALUES(resource),
    body = VALUES(body)
