-- When the first deadline passes of a row that can be taken. Of claimed rows only those before the
-- first free one are looked at: their claims may end earlier.
WITH free AS (
    SELECT min(deadline) AS deadline FROM (
        SELECT deadline FROM clinch_queue
        WHERE next_attempt_at IS NOT NULL AND deadline IS NOT NULL
            AND (claim_until IS NULL OR claim_until <= deadline)
        ORDER BY deadline LIMIT 1) AS q
)
SELECT least((SELECT deadline FROM free), (SELECT min(claim_until) FROM (
    SELECT claim_until FROM clinch_queue
    WHERE next_attempt_at IS NOT NULL AND deadline IS NOT NULL
        AND deadline < (SELECT coalesce(deadline, 9223372036854775807) FROM free)
        AND claim_until > deadline
    ORDER BY deadline LIMIT 1000) AS q)), clinch_now()
