-- Takes operations in: keys, rows and counters in one statement. It fails as a whole if a key
-- or an id has become known a moment ago; whoever sent it looks again.
WITH offered AS (
    SELECT * FROM unnest(
        $1::bytea[], $2::uuid[], $3::bytea[], $4::integer[], $5::text[], $6::text[], $7::bytea[],
        $8::bytea[], $9::text[], $10::text[], $11::bytea[], $12::uuid[], $13::smallint[],
        $14::smallint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::uuid[], $19::bytea[],
        $20::bytea[], $21::bigint[], $22::smallint[], $23::smallint[], $24::bigint[]
    ) WITH ORDINALITY AS o (
        key, op_id, fingerprint, stream, biz_key, idem_key, payload, content_hash, extras, labels,
        lane, batch_id, status, phase, version, next_attempt_at, deadline, attempt_id, state,
        ledger, started_at, line, need, need_at, place)
), known AS (
    INSERT INTO clinch_key (key, op_id, fingerprint)
    SELECT key, op_id, fingerprint FROM offered ORDER BY key
), placed AS (
    SELECT nextval('clinch_seq') AS seq, o.* FROM offered AS o
), counted AS (
    INSERT INTO clinch_delta
        (domain, pending, live, recorded, waiting, held, completed, failed)
    SELECT s.domain, count(*) FILTER (WHERE p.status = 0), count(*) FILTER (WHERE p.status = 1),
        0, 0, 0, 0, 0
    FROM placed AS p JOIN clinch_stream AS s ON s.id = p.stream
    WHERE $26 GROUP BY s.domain
)
INSERT INTO clinch_queue (
    op_id, seq, accepted_at, next_attempt_at, deadline, need_at, version, started_at, stream,
    status, phase, line, need, attempt_id, batch_id, biz_key, idem_key, content_hash, state,
    ledger, payload, lane, extras, labels)
SELECT op_id, seq, $25, next_attempt_at, deadline, need_at, version, started_at, stream,
    status, phase, line, need, attempt_id, batch_id, biz_key, idem_key, content_hash, state,
    ledger, payload, lane, extras, labels::jsonb
FROM placed
RETURNING op_id, seq
