SELECT l.letter, o.seq, o.redriven_by FROM clinch_dead_letter AS l
LEFT JOIN clinch_operation AS o ON o.op_id = l.op_id WHERE l.status IS NULL LIMIT ?1
