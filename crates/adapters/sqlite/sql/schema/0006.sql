-- The deadline of a route counts from run_at. Operations that were accepted before would end
-- before they may run: theirs is moved.
UPDATE clinch_operation SET deadline = deadline + (next_attempt_at - accepted_at)
WHERE status = 0 AND next_attempt_at IS NOT NULL AND deadline IS NOT NULL
    AND deadline <= next_attempt_at
    AND (SELECT r.asked_deadline IS NULL FROM clinch_request AS r WHERE r.seq = clinch_operation.seq);
