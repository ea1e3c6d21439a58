-- Moves ended operations from the queue to the history, and moves their counters. Left out, and
-- not returned: an operation that changed since it was read, and all of them if $15 is further
-- than $16 from the server's clock. If $17, it fails instead of leaving one out. Returns the clock,
-- the operations that were moved unless all were, and whether all were.
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
            unnest($10::bytea[]) AS result,
            unnest($11::bigint[]) AS version_before,
            unnest($12::bytea[]) AS ledger_before,
            unnest($13::smallint[]) AS was,
            unnest($14::smallint[]) AS became
    ) AS u
    WHERE q.op_id = ANY (ARRAY[u.op_id]) AND q.version = u.version_before AND q.ledger = u.ledger_before
        AND (SELECT abs(clinch_now() - $15) <= $16)
    RETURNING q.op_id, q.seq, q.accepted_at, u.deadline, u.version, q.dispatch_no, u.started_at,
        q.stream, u.status, u.attempt_id, q.batch_id, q.redriven_by, q.biz_key, q.idem_key,
        q.content_hash, u.state, u.ledger, q.payload, q.lane, q.extras, q.labels, u.txn_id,
        u.result, u.was, u.became
), kept AS (
    INSERT INTO clinch_history (
        op_id, seq, accepted_at, finished_at, deadline, version, dispatch_no, started_at, stream,
        status, attempt_id, batch_id, redriven_by, biz_key, idem_key, content_hash, state, ledger,
        payload, lane, extras, labels, txn_id, result)
    SELECT op_id, seq, accepted_at, $15, deadline, version, dispatch_no, started_at, stream,
        status, attempt_id, batch_id, redriven_by, biz_key, idem_key, content_hash, state, ledger,
        payload, lane, extras, labels, txn_id, result
    FROM gone
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
    FROM gone AS c JOIN clinch_stream AS s ON s.id = c.stream
    WHERE was <> became GROUP BY s.domain
)
SELECT clinch_now(), CASE WHEN w.rows < cardinality($1) THEN w.ids END,
    w.rows = cardinality($1),
    CASE WHEN $17 THEN clinch_require(w.rows = cardinality($1)) END
FROM (SELECT count(*) AS rows, array_agg(op_id) AS ids FROM gone) AS w
