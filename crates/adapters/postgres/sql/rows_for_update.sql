-- Open operations, locked in the order of their ids. What was asked for is read of $2 alone: no
-- guard but that of a begin looks at it.
SELECT q.op_id, q.seq, q.stream, q.accepted_at, q.batch_id, q.biz_key, q.idem_key,
    CASE WHEN q.op_id = ANY ($2::uuid[]) THEN q.payload END,
    q.content_hash, q.extras, q.labels::text, q.lane, q.status, q.phase, q.version,
    q.next_attempt_at, q.deadline, q.attempt_id, q.state, q.ledger, q.dispatch_no, q.started_at,
    NULL::bigint, q.txn_id, q.result, q.redriven_by, q.line
FROM clinch_queue AS q WHERE q.op_id = ANY ($1::uuid[]) ORDER BY q.op_id FOR UPDATE
