UPDATE clinch_queue AS q JOIN clinch_request AS r ON r.seq = q.seq SET
    q.locked_by = NULL, q.locked_until = NULL
WHERE r.op_id = {id} AND q.version = {version} AND q.locked_at = {at}
