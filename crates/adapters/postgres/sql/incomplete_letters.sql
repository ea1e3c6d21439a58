-- Letters that an earlier release has written, with what is read from their operations.
SELECT l.op_id, l.failed_at, l.letter, h.stream, h.biz_key, h.idem_key, h.state, h.seq, h.redriven_by
FROM (
    SELECT op_id, failed_at, letter FROM clinch_dead_letter AS d WHERE status IS NULL
        AND (letter IS NOT NULL OR EXISTS (SELECT FROM clinch_history AS h WHERE h.op_id = d.op_id))
    ORDER BY status, failed_at, op_id LIMIT $1::bigint FOR UPDATE SKIP LOCKED
) AS l
LEFT JOIN clinch_history AS h ON h.op_id = ANY (ARRAY[l.op_id])
