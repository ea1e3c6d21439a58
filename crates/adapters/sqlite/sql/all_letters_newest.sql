WHERE ?1 IS NULL AND l.status IS NOT NULL AND (l.failed_at, l.op_id) < (?2, ?3) AND l.failed_at >= ?4
ORDER BY l.failed_at DESC, l.op_id DESC LIMIT ?5
