-- Rows whose version is above 1 are there and locked; those without a body go. It fails as a
-- whole if a new one was made by somebody else a moment ago; whoever sent it looks again.
WITH offered AS (
    SELECT unnest($1::text[]) AS key, unnest($2::bigint[]) AS version, unnest($3::text[]) AS body
), changed AS (
    UPDATE clinch_record AS r SET version = o.version, body = o.body
    FROM offered AS o WHERE r.key = ANY (ARRAY[o.key]) AND o.version > 1 AND o.body IS NOT NULL
), gone AS (
    DELETE FROM clinch_record AS r
    USING offered AS o WHERE r.key = ANY (ARRAY[o.key]) AND o.body IS NULL
)
INSERT INTO clinch_record (key, version, body)
SELECT key, version, body FROM offered WHERE version = 1 AND body IS NOT NULL
