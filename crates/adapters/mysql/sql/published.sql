-- Each assignment sees the earlier ones, so `line` comes last.
UPDATE clinch_queue AS q JOIN clinch_request AS r ON r.seq = q.seq SET
    q.dispatch_no = {dispatch_no}, q.announced_at = @clinch_now, q.rounds = q.rounds + 1,
    q.locked_by = NULL, q.locked_until = NULL,
    q.due_at = IF(q.line IN (1, 2), @clinch_now, q.due_at), q.stream = IF(q.line = 1, '', q.stream),
    q.rank_no = IF(q.line = 1, 0, q.rank_no), q.line = IF(q.line = 1, 2, q.line)
WHERE r.op_id = {id} AND q.version = {version} AND q.locked_at = {at}
