-- Deletes batches that completed long ago.
WITH gone AS (
    DELETE FROM clinch_batch WHERE batch_id = ANY (ARRAY(
        SELECT batch_id FROM clinch_batch WHERE completed_at IS NOT NULL AND completed_at <= $1
        ORDER BY completed_at LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING 1
)
SELECT count(*) FROM gone
