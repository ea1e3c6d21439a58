WHERE o.seq < ?1 AND o.seq >= ?15
    AND (?2 IS NULL OR o.domain IN (SELECT value FROM json_each(?2)))
    AND (?3 IS NULL OR o.event_type IN (SELECT value FROM json_each(?3)))
    AND (?4 IS NULL OR r.biz_key = ?4) AND (?5 IS NULL OR r.idem_key = ?5)
    AND (?6 IS NULL OR o.txn_id = ?6) AND (?7 IS NULL OR o.status = ?7)
    AND (?8 IS NULL OR o.phase = ?8)
    AND (?9 IS NULL OR json_extract(r.labels, ?9) = ?10)
    AND (?16 IS NULL OR instr(o.failure, ?16) OR instr(o.hold, ?16) OR instr(o.last_error, ?16))
    AND (?17 IS NULL OR EXISTS (
        SELECT 1 FROM json_each(?17) AS route
        WHERE o.domain = json_extract(route.value, '$.domain')
            AND CASE json_type(route.value, '$.event_type')
                WHEN 'integer' THEN o.event_type = json_extract(route.value, '$.event_type')
                ELSE o.event_type NOT IN (SELECT value FROM json_each(route.value, '$.except'))
            END))
    AND (?12 IS NULL OR o.accepted_at >= ?12) AND (?13 IS NULL OR o.accepted_at < ?13)
