-- A change ends every claim: nobody has announced or claimed what the row is now.
UPDATE clinch_queue AS q SET
    status = u.status, phase = u.phase, version = u.version, next_attempt_at = u.next_attempt_at,
    deadline = u.deadline, attempt_id = u.attempt_id, state = u.state, ledger = u.ledger,
    started_at = u.started_at, line = u.line, need = u.need, need_at = u.need_at,
    txn_id = u.txn_id, result = u.result, announced_at = NULL, rounds = NULL, claim_by = NULL,
    claim_until = NULL, claimed_at = NULL
FROM unnest(
    $1::uuid[], $2::smallint[], $3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[],
    $7::uuid[], $8::bytea[], $9::bytea[], $10::bigint[], $11::smallint[], $12::smallint[],
    $13::bigint[], $14::text[], $15::bytea[]
) AS u (
    op_id, status, phase, version, next_attempt_at, deadline, attempt_id, state, ledger,
    started_at, line, need, need_at, txn_id, result)
WHERE q.op_id = u.op_id
