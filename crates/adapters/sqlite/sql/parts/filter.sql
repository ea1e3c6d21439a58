WHERE o.seq < ?1 AND o.seq >= ?15
    AND (?2 IS NULL OR o.domain IN (SELECT value FROM json_each(?2)))
    AND (?3 IS NULL OR o.event_type IN (SELECT value FROM json_each(?3)))
    AND (?4 IS NULL OR r.biz_key = ?4) AND (?5 IS NULL OR r.idem_key = ?5)
    AND (?6 IS NULL OR o.txn_id = ?6) AND (?7 IS NULL OR o.status = ?7)
    AND (?8 IS NULL OR o.phase = ?8)
    AND (?9 IS NULL OR json_extract(r.labels, ?9) = ?10)
    AND (?12 IS NULL OR o.accepted_at >= ?12) AND (?13 IS NULL OR o.accepted_at < ?13)
