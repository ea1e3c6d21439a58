-- Of one business object: found by the first bytes of its keys. All of its operations are read
-- before the order counts, or a plan without values would read along the order instead.
WITH own AS MATERIALIZED (
    SELECT * FROM clinch_operation
    WHERE op_id = ANY (ARRAY(SELECT k.op_id FROM clinch_key AS k WHERE k.key >= $16 AND k.key <= $17))
)
SELECT o.op_id, o.seq, o.stream, o.accepted_at, o.batch_id, o.biz_key, o.idem_key, o.payload, o.content_hash,
    o.extras, o.labels::text, o.lane, o.status, o.phase, o.version, o.next_attempt_at, o.deadline, o.attempt_id,
    o.state, o.ledger, o.dispatch_no, o.started_at, o.finished_at, o.txn_id, o.result, o.redriven_by, o.line
FROM own AS o
WHERE o.seq < $1 AND o.seq >= $14
    AND ($2::integer[] IS NULL OR o.stream = ANY ($2))
    AND ($3::text IS NULL OR o.biz_key = $3) AND ($4::text IS NULL OR o.idem_key = $4)
    AND ($5::text IS NULL OR o.txn_id = $5) AND ($6::smallint IS NULL OR o.status = $6)
    AND ($7::smallint IS NULL OR o.phase = $7)
    AND ($8::text IS NULL OR o.labels ->> $8 = $9::text)
    AND ($10::uuid IS NULL OR o.batch_id = $10)
    AND ($11::bigint IS NULL OR o.accepted_at >= $11)
    AND ($12::bigint IS NULL OR o.accepted_at < $12)
    AND ($15::bytea IS NULL OR position($15 IN o.state) > 0)
ORDER BY o.seq DESC LIMIT $13
