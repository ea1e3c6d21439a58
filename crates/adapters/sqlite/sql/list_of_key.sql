-- Like list.sql, with the key index.
SELECT
    o.seq, o.op_id, o.domain, o.event_type, o.accepted_at, o.batch_id, o.rank, o.laned,
    o.status, o.phase, o.version, o.fence, o.attempt_id, o.attempts, o.maybe_calls,
    o.deliveries, o.effect, o.first_call_at, o.call_deadline, o.lease_until, o.next_attempt_at,
    o.deadline, o.recorded, o.recorded_fence, o.flags, o.refund, o.refund_first_call_at,
    o.hold, o.failure, o.dispatch_no, o.started_at, o.finished_at, o.txn_id, o.result,
    o.redriven_by, o.announced_at, o.line, o.ledger,
    r.biz_key, r.idem_key, r.payload, r.content_hash, r.fingerprint, r.outbound_key, r.run_at,
    r.asked_deadline, r.labels, r.lane, r.redrive_of, r.trace
FROM clinch_operation AS o JOIN clinch_request AS r ON r.seq = o.seq
WHERE (?1 IS NULL OR o.seq < ?1)
    AND (?2 IS NULL OR o.domain IN (SELECT value FROM json_each(?2)))
    AND (?3 IS NULL OR o.event_type IN (SELECT value FROM json_each(?3)))
    AND (?4 IS NULL OR r.biz_key = ?4) AND (?5 IS NULL OR r.idem_key = ?5)
    AND (?6 IS NULL OR o.txn_id = ?6) AND (?7 IS NULL OR o.status = ?7)
    AND (?8 IS NULL OR o.phase = ?8)
    AND (?9 IS NULL OR json_extract(r.labels, ?9) = ?10)
    AND (?11 IS NULL OR o.batch_id = ?11)
    AND (?12 IS NULL OR o.accepted_at >= ?12) AND (?13 IS NULL OR o.accepted_at < ?13)
    AND o.seq IN (
        SELECT seq FROM clinch_key_new WHERE hash BETWEEN ?15 AND ?15 + 4294967295
        UNION ALL SELECT seq FROM clinch_key_mid WHERE hash BETWEEN ?15 AND ?15 + 4294967295
        UNION ALL SELECT seq FROM clinch_key WHERE hash BETWEEN ?15 AND ?15 + 4294967295)
ORDER BY o.seq DESC LIMIT ?14
