SELECT h.op_id, h.seq, h.stream, h.accepted_at, h.batch_id, h.biz_key, h.idem_key, h.payload,
    h.content_hash, h.extras, h.labels::text, h.lane, h.status, NULL::smallint, h.version,
    NULL::bigint, h.deadline, h.attempt_id, h.state, h.ledger, h.dispatch_no, h.started_at,
    h.finished_at, h.txn_id, h.result, h.redriven_by, 0::smallint
FROM clinch_history AS h WHERE h.op_id = ANY ($1::uuid[]) ORDER BY h.op_id FOR UPDATE
