-- Changes open operations, and moves their counters. A change ends every claim: nobody has
-- announced or claimed what the row is now. Left out, and not returned: an operation that changed
-- since it was read, one that begins before it is due or in a paused domain, and all of them if $20
-- is further than $21 from the server's clock. If $22, it fails instead of leaving one out. Returns
-- the clock, the operations that were changed unless all were, and whether all were.
WITH changed AS (
    UPDATE clinch_queue AS q SET
        status = u.status, phase = u.phase, version = u.version,
        next_attempt_at = u.next_attempt_at, deadline = u.deadline, attempt_id = u.attempt_id,
        state = u.state, ledger = u.ledger, started_at = u.started_at, line = u.line,
        need = u.need, need_at = u.need_at, txn_id = u.txn_id, result = u.result,
        announced_at = NULL, rounds = NULL, claim_by = NULL, claim_until = NULL, claimed_at = NULL
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
            unnest($15::bytea[]) AS result,
            unnest($16::bigint[]) AS version_before,
            unnest($17::bytea[]) AS ledger_before,
            unnest($18::smallint[]) AS was,
            unnest($19::smallint[]) AS became
    ) AS u
    WHERE q.op_id = ANY (ARRAY[u.op_id]) AND q.version = u.version_before AND q.ledger = u.ledger_before
        AND (SELECT abs(clinch_now() - $20) <= $21)
        AND NOT (u.became = 1 AND u.was <> 1 AND (
            (q.next_attempt_at > (SELECT clinch_now())) IS TRUE
            OR q.stream IN (
                SELECT s.id FROM clinch_stream AS s JOIN clinch_domain AS d ON d.id = s.domain
                WHERE d.paused)))
    RETURNING q.op_id, q.stream, u.was, u.became
), counted AS (
    INSERT INTO clinch_delta
        (domain, pending, live, recorded, waiting, held, completed, failed)
    SELECT s.domain,
        count(*) FILTER (WHERE became = 0) - count(*) FILTER (WHERE was = 0),
        count(*) FILTER (WHERE became = 1) - count(*) FILTER (WHERE was = 1),
        count(*) FILTER (WHERE became = 2) - count(*) FILTER (WHERE was = 2),
        count(*) FILTER (WHERE became = 3) - count(*) FILTER (WHERE was = 3),
        count(*) FILTER (WHERE became = 4) - count(*) FILTER (WHERE was = 4),
        count(*) FILTER (WHERE became = 5) - count(*) FILTER (WHERE was = 5),
        count(*) FILTER (WHERE became = 6) - count(*) FILTER (WHERE was = 6)
    FROM changed AS c JOIN clinch_stream AS s ON s.id = c.stream
    WHERE was <> became GROUP BY s.domain
)
SELECT clinch_now(), CASE WHEN w.rows < cardinality($1) THEN w.ids END,
    w.rows = cardinality($1),
    CASE WHEN $22 THEN clinch_require(w.rows = cardinality($1)) END
FROM (SELECT count(*) AS rows, array_agg(op_id) AS ids FROM changed) AS w
