-- Puts the new head of a lane into the queue.
UPDATE clinch_operation SET line = CASE WHEN announced_at IS NULL THEN 1 ELSE 2 END
WHERE seq = ?1 AND next_attempt_at IS NOT NULL
