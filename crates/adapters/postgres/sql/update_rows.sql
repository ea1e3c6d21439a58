-- A change ends every claim: nobody has announced or claimed what the row is now.
UPDATE clinch_queue AS q SET
    status = u.status, phase = u.phase, version = u.version, next_attempt_at = u.next_attempt_at,
    deadline = u.deadline, attempt_id = u.attempt_id, state = u.state, ledger = u.ledger,
    started_at = u.started_at, line = u.line, need = u.need, need_at = u.need_at,
    txn_id = u.txn_id, result = u.result, announced_at = NULL, rounds = NULL, claim_by = NULL,
    claim_until = NULL, claimed_at = NULL
FROM (
    SELECT
        unnest($1::uuid[]) AS op_id,
        unnest($2::smallint[]) AS status,
        unnest($3::bigint[]) AS version,
        unnest($4::bigint[]) AS deadline,
        unnest($5::uuid[]) AS attempt_id,
        unnest($6::bytea[]) AS state,
        unnest($7::bytea[]) AS ledger,
        unnest($8::bigint[]) AS started_at,
        unnest($9::smallint[]) AS phase,
        unnest($10::bigint[]) AS next_attempt_at,
        unnest($11::smallint[]) AS line,
        unnest($12::smallint[]) AS need,
        unnest($13::bigint[]) AS need_at,
        unnest($14::text[]) AS txn_id,
        unnest($15::bytea[]) AS result
) AS u
WHERE q.op_id = u.op_id
