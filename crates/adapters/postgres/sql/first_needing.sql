-- When the first row needs this and can be taken. Of claimed rows only those before the first free
-- one are looked at: their claims may end earlier.
WITH free AS (
    SELECT min(need_at) AS need_at FROM (
        SELECT need_at FROM clinch_queue
        WHERE need = $1 AND (claim_until IS NULL OR claim_until <= need_at)
        ORDER BY need_at LIMIT 1) AS q
)
SELECT least((SELECT need_at FROM free), (SELECT min(claim_until) FROM (
    SELECT claim_until FROM clinch_queue
    WHERE need = $1 AND need_at < (SELECT coalesce(need_at, 9223372036854775807) FROM free)
        AND claim_until > need_at
    ORDER BY need_at LIMIT 1000) AS q)), clinch_now()
