SELECT id, kind, user, resource FROM clinch_document
WHERE collection = ?1 AND id > ?2 AND (?3 IS NULL OR user = ?3) AND (?4 IS NULL OR kind = ?4)
    AND (?5 IS NULL OR resource = ?5)
ORDER BY id LIMIT ?6
