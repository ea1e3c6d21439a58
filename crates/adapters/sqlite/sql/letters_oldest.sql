WHERE l.status = ?1 AND (l.failed_at, l.op_id) > (?2, ?3) AND l.failed_at <= ?4
ORDER BY l.failed_at, l.op_id LIMIT ?5
