SELECT q.op_id, q.seq, q.stream, q.accepted_at, q.batch_id, q.biz_key, q.idem_key, q.payload,
    q.content_hash, q.extras, q.labels::text, q.lane, q.status, q.phase, q.version,
    q.next_attempt_at, q.deadline, q.attempt_id, q.state, q.ledger, q.dispatch_no, q.started_at,
    NULL::bigint, q.txn_id, q.result, q.redriven_by, q.line
FROM clinch_queue AS q WHERE q.op_id = ANY ($1::uuid[]) ORDER BY q.op_id FOR UPDATE
