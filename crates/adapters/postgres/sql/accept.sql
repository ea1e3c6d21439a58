-- Takes operations in: keys, rows and counters in one statement. It fails as a whole if a key
-- or an id has become known a moment ago; whoever sent it looks again.
WITH offered AS (
    -- In the list, not in FROM: there the server would store each array once more.
    SELECT
        unnest($1::bytea[]) AS key,
        unnest($2::uuid[]) AS op_id,
        unnest($3::bytea[]) AS fingerprint,
        unnest($4::integer[]) AS stream,
        unnest($5::text[]) AS biz_key,
        unnest($6::text[]) AS idem_key,
        unnest($7::bytea[]) AS payload,
        unnest($8::bytea[]) AS content_hash,
        unnest($9::text[]) AS extras,
        unnest($10::text[]) AS labels,
        unnest($11::bytea[]) AS lane,
        unnest($12::uuid[]) AS batch_id,
        unnest($13::smallint[]) AS status,
        unnest($14::smallint[]) AS phase,
        unnest($15::bigint[]) AS version,
        unnest($16::bigint[]) AS next_attempt_at,
        unnest($17::bigint[]) AS deadline,
        unnest($18::uuid[]) AS attempt_id,
        unnest($19::bytea[]) AS state,
        unnest($20::bytea[]) AS ledger,
        unnest($21::bigint[]) AS started_at,
        unnest($22::smallint[]) AS line,
        unnest($23::smallint[]) AS need,
        unnest($24::bigint[]) AS need_at
), known AS (
    INSERT INTO clinch_key (key, op_id, fingerprint)
    SELECT key, op_id, fingerprint FROM offered ORDER BY key
), counted AS (
    INSERT INTO clinch_delta
        (domain, pending, live, recorded, waiting, held, completed, failed)
    SELECT s.domain, count(*) FILTER (WHERE o.status = 0), count(*) FILTER (WHERE o.status = 1),
        0, 0, 0, 0, 0
    FROM offered AS o JOIN clinch_stream AS s ON s.id = o.stream
    WHERE $26 GROUP BY s.domain
)
INSERT INTO clinch_queue (
    op_id, seq, accepted_at, next_attempt_at, deadline, need_at, version, started_at, stream,
    status, phase, line, need, attempt_id, batch_id, biz_key, idem_key, content_hash, state,
    ledger, payload, lane, extras, labels)
SELECT op_id, nextval('clinch_seq'), $25, next_attempt_at, deadline, need_at, version, started_at,
    stream, status, phase, line, need, attempt_id, batch_id, biz_key, idem_key, content_hash, state,
    ledger, payload, lane, extras, labels::jsonb
FROM offered
RETURNING op_id, seq
