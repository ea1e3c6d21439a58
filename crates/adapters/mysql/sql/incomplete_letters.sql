SELECT {history}{request}, d.letter, d.failed_at
FROM clinch_dead_letter AS d FORCE INDEX (by_status)
LEFT JOIN clinch_request AS r ON r.op_id = d.op_id
LEFT JOIN clinch_history AS h ON h.seq = r.seq
WHERE d.status IS NULL AND (d.letter IS NOT NULL OR h.seq IS NOT NULL) LIMIT {limit}
