UPDATE clinch_queue AS q SET
    dispatch_no = c.dispatch_no, announced_at = $5, rounds = least(coalesce(q.rounds, 0) + 1, 17),
    claim_by = NULL, claim_until = NULL, line = CASE q.line WHEN 1 THEN 2 ELSE q.line END
FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[])
    AS c (op_id, version, claimed_at, dispatch_no)
WHERE q.op_id = ANY (ARRAY[c.op_id]) AND q.version = c.version AND q.claimed_at = c.claimed_at
