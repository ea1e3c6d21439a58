-- What is known by keys, and by ids that are to be given.
SELECT k.key, k.op_id, k.fingerprint, q.status, h.status, p.status
FROM (
    SELECT key, op_id, fingerprint FROM clinch_key WHERE key = ANY ($1::bytea[])
    UNION
    SELECT key, op_id, fingerprint FROM clinch_key WHERE op_id = ANY ($2::uuid[])
) AS k
LEFT JOIN clinch_queue AS q ON q.op_id = ANY (ARRAY[k.op_id])
LEFT JOIN clinch_history AS h ON h.op_id = ANY (ARRAY[k.op_id])
LEFT JOIN clinch_kept AS p ON p.op_id = ANY (ARRAY[k.op_id])
