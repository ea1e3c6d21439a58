-- Operations without their requests.
SELECT
    seq, op_id, domain, event_type, accepted_at, batch_id, rank, laned, status, phase, version,
    fence, attempt_id, attempts, maybe_calls, deliveries, effect, first_call_at, call_deadline,
    lease_until, next_attempt_at, deadline, recorded, recorded_fence, flags, refund,
    refund_first_call_at, hold, failure, dispatch_no, started_at, finished_at, txn_id, result,
    redriven_by, announced_at, line, ledger, last_error
FROM clinch_operation 