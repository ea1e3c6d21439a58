-- Tells of each key whether it was active until now.
WITH before AS (
    SELECT id, revoked_at IS NULL AND (expires_at IS NULL OR $2 < expires_at) AS was_active
    FROM clinch_api_key WHERE id = $1 FOR UPDATE
), ended AS (
    UPDATE clinch_api_key SET revoked_at = coalesce(revoked_at, $2) WHERE id = $1
)
SELECT was_active FROM before
