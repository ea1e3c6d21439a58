WITH u AS (SELECT * FROM unnest($1::uuid[], $2::uuid[]) AS u (op_id, redriven_by)), open AS (
    UPDATE clinch_queue AS q SET redriven_by = u.redriven_by FROM u WHERE q.op_id = ANY (ARRAY[u.op_id])
)
UPDATE clinch_history AS h SET redriven_by = u.redriven_by FROM u WHERE h.op_id = ANY (ARRAY[u.op_id])
