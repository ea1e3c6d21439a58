-- Followers that became heads of their lanes.
UPDATE clinch_queue SET line = CASE WHEN announced_at IS NULL THEN 1 ELSE 2 END
WHERE op_id = ANY ($1::uuid[]) AND next_attempt_at IS NOT NULL
