r.seq, r.op_id, r.domain, r.event_type, r.accepted_at, r.batch_id, r.rank_no, r.lane, h.status,
    NULL, h.version, h.attempt_id, NULL, h.deadline, h.state, h.dispatch_no, h.started_at,
    h.finished_at, h.txn_id, h.result, h.redriven_by, NULL, h.ledger
