-- Takes operations in: keys, rows and counters in one statement. Left out, and not returned: an
-- operation whose key or id is known; all of them if one begins in a domain that is paused, or if
-- $25 is further than $26 from the server's clock. If $27, it fails instead of leaving one out.
-- Returns the clock, and the operations that were taken in with their seqs.
WITH offered AS (
    -- In the list, not in FROM: there the server would store each array once more.
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
        unnest($14::bytea[]) AS key,
        unnest($15::bytea[]) AS fingerprint,
        unnest($16::integer[]) AS stream,
        unnest($17::text[]) AS biz_key,
        unnest($18::text[]) AS idem_key,
        unnest($19::bytea[]) AS payload,
        unnest($20::bytea[]) AS content_hash,
        unnest($21::text[]) AS extras,
        unnest($22::text[]) AS labels,
        unnest($23::bytea[]) AS lane,
        unnest($24::uuid[]) AS batch_id
), fresh AS (
    INSERT INTO clinch_key (key, op_id, fingerprint)
    SELECT key, op_id, fingerprint FROM offered
    WHERE (SELECT abs(clinch_now() - $25) <= $26)
        AND NOT EXISTS (
            SELECT FROM offered AS b JOIN clinch_stream AS s ON s.id = b.stream
            JOIN clinch_domain AS d ON d.id = s.domain WHERE b.status = 1 AND d.paused)
    ORDER BY key
    ON CONFLICT DO NOTHING
    RETURNING op_id
), taken AS (
    INSERT INTO clinch_queue (
        op_id, seq, accepted_at, next_attempt_at, deadline, need_at, version, started_at, stream,
        status, phase, line, need, attempt_id, batch_id, biz_key, idem_key, content_hash, state,
        ledger, payload, lane, extras, labels)
    SELECT op_id, nextval('clinch_seq'), $25, next_attempt_at, deadline, need_at, version,
        started_at, stream, status, phase, line, need, attempt_id, batch_id, biz_key, idem_key,
        content_hash, state, ledger, payload, lane, extras, labels::jsonb
    FROM offered
    -- Not a join: that could change the order of the seqs.
    WHERE (op_id IN (SELECT op_id FROM fresh)) IS TRUE
    RETURNING op_id, seq, stream, status
), counted AS (
    INSERT INTO clinch_delta
        (domain, pending, live, recorded, waiting, held, completed, failed)
    SELECT s.domain, count(*) FILTER (WHERE t.status = 0), count(*) FILTER (WHERE t.status = 1),
        0, 0, 0, 0, 0
    FROM taken AS t JOIN clinch_stream AS s ON s.id = t.stream GROUP BY s.domain
)
SELECT clinch_now(), w.ids, w.seqs,
    CASE WHEN $27 THEN clinch_require(w.rows = cardinality($1)) END
FROM (SELECT count(*) AS rows, array_agg(op_id) AS ids, array_agg(seq) AS seqs FROM taken) AS w
