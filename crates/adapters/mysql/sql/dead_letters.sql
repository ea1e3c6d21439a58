SELECT {history}{request}, d.letter
FROM clinch_dead_letter AS d FORCE INDEX (by_age)
LEFT JOIN clinch_request AS r ON r.op_id = d.op_id AND d.letter IS NULL
LEFT JOIN clinch_history AS h ON h.seq = r.seq
WHERE {after} ORDER BY d.failed_at DESC, d.op_id DESC LIMIT {limit}
