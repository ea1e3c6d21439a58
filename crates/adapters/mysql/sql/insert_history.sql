INSERT INTO clinch_history (seq, status, finished_at, version, attempt_id, deadline, state,
    dispatch_no, started_at, txn_id, result, redriven_by, ledger)
VALUES {rows}
