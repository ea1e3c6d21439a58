UPDATE OR REPLACE clinch_document SET collection = ?2 WHERE collection = ?1 AND id = ?3
