-- Of one batch.
SELECT o.op_id, o.seq, o.stream, o.accepted_at, o.batch_id, o.biz_key, o.idem_key, o.payload, o.content_hash,
    o.extras, o.labels::text, o.lane, o.status, o.phase, o.version, o.next_attempt_at, o.deadline, o.attempt_id,
    o.state, o.ledger, o.dispatch_no, o.started_at, o.finished_at, o.txn_id, o.result, o.redriven_by, o.line
FROM clinch_operation AS o
WHERE o.batch_id = $10
    AND o.seq < $1 AND o.seq >= $14
    AND ($2::integer[] IS NULL OR o.stream = ANY ($2))
    AND ($3::text IS NULL OR o.biz_key = $3) AND ($4::text IS NULL OR o.idem_key = $4)
    AND ($5::text IS NULL OR o.txn_id = $5) AND ($6::smallint IS NULL OR o.status = $6)
    AND ($7::smallint IS NULL OR o.phase = $7)
    AND ($8::text IS NULL OR o.labels ->> $8 = $9::text)
    AND ($11::bigint IS NULL OR o.accepted_at >= $11)
    AND ($12::bigint IS NULL OR o.accepted_at < $12)
    AND ($15::bytea IS NULL OR position($15 IN o.state) > 0)
ORDER BY o.seq DESC LIMIT $13
