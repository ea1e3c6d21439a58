INSERT INTO clinch_operation (
    seq, op_id, domain, event_type, accepted_at, batch_id, rank, laned, status, phase, version,
    fence, attempt_id, attempts, maybe_calls, deliveries, effect, first_call_at, call_deadline,
    lease_until, next_attempt_at, deadline, recorded, recorded_fence, flags, refund,
    refund_first_call_at, hold, failure, dispatch_no, started_at, finished_at, txn_id, result,
    redriven_by, line, need, need_at, failure_effect, ledger
) VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
    ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37, ?38,
    ?39, ?40
)
