-- The plus signs: of all ids of the collection only those of the user are looked at.
SELECT id, kind, user, resource FROM clinch_document INDEXED BY clinch_document_resource
WHERE collection = ?1 AND +id > ?2 AND user = ?3 AND ?4 IS NULL AND ?5 IS NULL
ORDER BY +id LIMIT ?6
