WITH old AS (
    DELETE FROM clinch_kept WHERE op_id = ANY (ARRAY(
        SELECT op_id FROM clinch_kept WHERE settled_at <= $1 ORDER BY settled_at LIMIT $2
        FOR UPDATE SKIP LOCKED))
    RETURNING op_id
), gone AS (
    DELETE FROM clinch_key AS k USING old WHERE k.op_id = ANY (ARRAY[old.op_id]) RETURNING 1
)
SELECT count(*) FROM gone
