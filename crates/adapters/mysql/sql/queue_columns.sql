r.seq, r.op_id, r.domain, r.event_type, r.accepted_at, r.batch_id, r.rank_no, r.lane, q.status,
    q.phase, q.version, q.attempt_id, q.next_retry_at, q.deadline, q.state, q.dispatch_no,
    q.started_at, NULL, q.txn_id, q.result, q.redriven_by, q.line, q.ledger
