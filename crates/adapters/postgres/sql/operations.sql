SELECT op_id, seq, stream, accepted_at, batch_id, biz_key, idem_key, payload, content_hash,
    extras, labels::text, lane, status, phase, version, next_attempt_at, deadline, attempt_id,
    state, ledger, dispatch_no, started_at, finished_at, txn_id, result, redriven_by, line
FROM clinch_operation WHERE op_id = ANY ($1::uuid[])
