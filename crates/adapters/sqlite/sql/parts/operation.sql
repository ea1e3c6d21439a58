-- Whole operations.
SELECT
    o.seq, o.op_id, o.domain, o.event_type, o.accepted_at, o.batch_id, o.rank, o.laned,
    o.status, o.phase, o.version, o.fence, o.attempt_id, o.attempts, o.maybe_calls,
    o.deliveries, o.effect, o.first_call_at, o.call_deadline, o.lease_until, o.next_attempt_at,
    o.deadline, o.recorded, o.recorded_fence, o.flags, o.refund, o.refund_first_call_at,
    o.hold, o.failure, o.dispatch_no, o.started_at, o.finished_at, o.txn_id, o.result,
    o.redriven_by, o.announced_at, o.line, o.ledger, o.last_error,
    r.biz_key, r.idem_key, r.payload, r.content_hash, r.fingerprint, r.outbound_key, r.run_at,
    r.asked_deadline, r.labels, r.lane, r.redrive_of, r.trace
FROM clinch_operation AS o JOIN clinch_request AS r ON r.seq = o.seq
