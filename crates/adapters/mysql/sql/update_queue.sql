INSERT INTO clinch_queue (seq, status, phase, version, attempt_id, next_retry_at, deadline, state,
    dispatch_no, started_at, txn_id, result, redriven_by, line, stream, rank_no, due_at, ledger)
VALUES {rows}
ON DUPLICATE KEY UPDATE status = VALUES(status), phase = VALUES(phase), version = VALUES(version),
    attempt_id = VALUES(attempt_id), next_retry_at = VALUES(next_retry_at),
    deadline = VALUES(deadline), state = VALUES(state), dispatch_no = VALUES(dispatch_no),
    started_at = VALUES(started_at), txn_id = VALUES(txn_id), result = VALUES(result),
    redriven_by = VALUES(redriven_by), line = VALUES(line), stream = VALUES(stream),
    rank_no = VALUES(rank_no), due_at = VALUES(due_at), announced_at = NULL,
    rounds = 0, locked_by = NULL, locked_at = NULL, locked_until = NULL, ledger = VALUES(ledger)
