SELECT id, kind, user, resource FROM clinch_document INDEXED BY clinch_document_user
WHERE collection = ?1 AND id > ?2 AND user = ?3 AND kind = ?4 AND ?5 IS NULL
ORDER BY id LIMIT ?6
