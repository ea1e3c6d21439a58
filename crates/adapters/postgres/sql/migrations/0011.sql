-- What a call examines does not grow with the history or the backlog.

-- Announced rows, by how often they were announced: the pause before the next announcement depends
-- on it, and does not grow after 17. And by due time, for the age of the oldest one.
UPDATE clinch_queue SET rounds = least(coalesce(rounds, 1), 17)
WHERE line = 2 AND (rounds IS NULL OR rounds > 17);
DROP INDEX clinch_announced;
CREATE INDEX clinch_announced ON clinch_queue (stream, rounds, announced_at, seq) WHERE line = 2;
CREATE INDEX clinch_announced_due ON clinch_queue (stream, next_attempt_at) WHERE line = 2;

-- IN_PROGRESS without a running attempt, by the first begin: for those that take too long.
CREATE INDEX clinch_unsettled ON clinch_queue (started_at) WHERE phase IN (1, 2);

-- Open operations in the order of lists.
CREATE INDEX clinch_queue_by_seq ON clinch_queue (seq);
DROP INDEX clinch_queue_by_batch;
CREATE INDEX clinch_queue_by_batch ON clinch_queue (batch_id, seq) WHERE batch_id IS NOT NULL;
DROP INDEX clinch_history_by_batch;
CREATE INDEX clinch_history_by_batch ON clinch_history (batch_id, seq) WHERE batch_id IS NOT NULL;

-- By age, for pruning. COMPLETED and FAILED operations are kept for different times.
DROP INDEX clinch_history_by_age;
CREATE INDEX clinch_history_completed ON clinch_history (finished_at) WHERE status = 2;
CREATE INDEX clinch_history_failed ON clinch_history (finished_at) WHERE status = 3;
CREATE INDEX clinch_batch_by_age ON clinch_batch (completed_at) WHERE completed_at IS NOT NULL;
