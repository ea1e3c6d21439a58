    AND (?11 IS NULL OR o.batch_id = ?11)
ORDER BY o.seq DESC LIMIT ?14
