-- Takes operations in: keys, rows and counters in one statement. It fails as a whole if a key
-- or an id has become known a moment ago; whoever sent it looks again.
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
