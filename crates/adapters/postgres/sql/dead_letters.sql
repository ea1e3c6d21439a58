-- Newest first. A letter that is not written out is read from its operation.
SELECT l.op_id, l.failed_at, l.letter, h.stream, h.biz_key, h.idem_key, h.payload,
    h.content_hash, h.state
FROM (
    SELECT * FROM clinch_dead_letter
    WHERE $1::bigint IS NULL OR (failed_at, op_id) < ($1, $2::uuid)
    ORDER BY failed_at DESC, op_id DESC LIMIT $3
) AS l
LEFT JOIN clinch_history AS h ON h.op_id = ANY (ARRAY[l.op_id]) AND l.letter IS NULL
ORDER BY l.failed_at DESC, l.op_id DESC
