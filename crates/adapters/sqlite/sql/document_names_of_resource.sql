-- The plus signs: of all ids of the collection only those of the resource are looked at.
SELECT id, kind, user, resource FROM clinch_document INDEXED BY clinch_document_resource
WHERE collection = ?1 AND +id > ?2 AND user = ?3 AND ?4 IS NULL AND resource = ?5
ORDER BY +id LIMIT ?6
