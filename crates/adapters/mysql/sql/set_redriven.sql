UPDATE clinch_queue AS q JOIN clinch_request AS r ON r.seq = q.seq SET q.redriven_by = {by}
WHERE r.op_id = {id}
