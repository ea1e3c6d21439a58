UPDATE clinch_history AS h JOIN clinch_request AS r ON r.seq = h.seq SET h.redriven_by = {by}
WHERE r.op_id = {id}
