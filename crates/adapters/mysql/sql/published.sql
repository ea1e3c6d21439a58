-- Each assignment sees the earlier ones, so `line` comes last: servers promise this order for an
-- update of one table only. The rank of an announced row is how often it was announced.
UPDATE clinch_queue SET
    dispatch_no = {dispatch_no}, announced_at = @clinch_now, rounds = LEAST(rounds + 1, 17),
    locked_by = NULL, locked_until = NULL, due_at = IF(line IN (1, 2), @clinch_now, due_at),
    rank_no = IF(line IN (1, 2), rounds, rank_no), line = IF(line = 1, 2, line)
WHERE seq = (SELECT r.seq FROM clinch_request AS r WHERE r.op_id = {id})
    AND version = {version} AND locked_at = {at}
