WHERE l.status = ?1 AND (l.seq, l.op_id) > (?2, ?3) AND l.seq <= ?4
ORDER BY l.seq, l.op_id LIMIT ?5
