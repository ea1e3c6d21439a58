INSERT INTO clinch_queue (seq, status, phase, version, attempt_id, next_retry_at, deadline, state,
    dispatch_no, started_at, txn_id, result, redriven_by, line, stream, rank_no, due_at, ledger)
VALUES {rows}
