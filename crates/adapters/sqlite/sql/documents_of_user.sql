SELECT id, kind, user, resource, body FROM clinch_document
WHERE seq IN (
    -- The plus signs: of all ids of the collection only those of the user are looked at.
    SELECT seq FROM clinch_document
    WHERE collection = ?1 AND +id > ?2 AND user = ?3 AND (?5 IS NULL OR resource = ?5)
    ORDER BY +id LIMIT ?6
) AND ?4 IS NULL
ORDER BY id
