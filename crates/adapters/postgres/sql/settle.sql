-- Moves ended operations from the queue to the history.
WITH gone AS (
    DELETE FROM clinch_queue AS q
    USING (
        SELECT
            unnest($1::uuid[]) AS op_id,
            unnest($2::smallint[]) AS status,
            unnest($3::bigint[]) AS version,
            unnest($4::bigint[]) AS deadline,
            unnest($5::uuid[]) AS attempt_id,
            unnest($6::bytea[]) AS state,
            unnest($7::bytea[]) AS ledger,
            unnest($8::bigint[]) AS started_at,
            unnest($9::text[]) AS txn_id,
            unnest($10::bytea[]) AS result
    ) AS u
    WHERE q.op_id = u.op_id
    RETURNING q.op_id, q.seq, q.accepted_at, u.deadline, u.version, q.dispatch_no, u.started_at,
        q.stream, u.status, u.attempt_id, q.batch_id, q.redriven_by, q.biz_key, q.idem_key,
        q.content_hash, u.state, u.ledger, q.payload, q.lane, q.extras, q.labels, u.txn_id,
        u.result
)
INSERT INTO clinch_history (
    op_id, seq, accepted_at, finished_at, deadline, version, dispatch_no, started_at, stream,
    status, attempt_id, batch_id, redriven_by, biz_key, idem_key, content_hash, state, ledger,
    payload, lane, extras, labels, txn_id, result)
SELECT op_id, seq, accepted_at, $11, deadline, version, dispatch_no, started_at, stream,
    status, attempt_id, batch_id, redriven_by, biz_key, idem_key, content_hash, state, ledger,
    payload, lane, extras, labels, txn_id, result
FROM gone
