    , (?6 IS NULL OR l.domain IN (SELECT value FROM json_each(?6)))
    AND (?7 IS NULL OR l.event_type IN (SELECT value FROM json_each(?7)))
    AND (?8 IS NULL OR l.biz_key = ?8) AND (?9 IS NULL OR l.idem_key = ?9)
    AND (?10 IS NULL OR l.code = ?10) AND (?11 IS NULL OR l.fingerprint = ?11)
    AND (?12 IS NULL OR l.failed_at >= ?12) AND (?13 IS NULL OR l.failed_at < ?13)
    AND (?14 IS NULL OR l.seq <= ?14)
FROM clinch_dead_letter AS l
