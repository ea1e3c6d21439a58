-- What a call examines does not grow with the history or the backlog.

-- Announced rows, by how often they were announced: the pause before the next announcement depends
-- on it, and does not grow after 17. And by due time, for the age of the oldest one.
UPDATE clinch_operation SET rounds = 17 WHERE line = 2 AND rounds > 17;
DROP INDEX clinch_announced;
CREATE INDEX clinch_announced ON clinch_operation (domain, event_type, rounds, announced_at)
    WHERE line = 2;
CREATE INDEX clinch_announced_due ON clinch_operation (domain, event_type, next_attempt_at)
    WHERE line = 2;

-- IN_PROGRESS without a running attempt, by the first begin: for those that take too long.
CREATE INDEX clinch_unsettled ON clinch_operation (started_at) WHERE phase IN (1, 2);

-- By age, for pruning. COMPLETED operations have no such index, which every commit would have to
-- write: they are pruned in order of seq.
CREATE INDEX clinch_failed ON clinch_operation (finished_at) WHERE status = 3;
CREATE INDEX clinch_batch_by_age ON clinch_batch (completed_at) WHERE completed_at IS NOT NULL;

-- How far pruning has come: no COMPLETED operation with a seq up to `up_to` is left, except those
-- in clinch_passed, which were open or too young. They are looked at in turn, from `passed_from`.
CREATE TABLE clinch_pruned (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    up_to INTEGER NOT NULL,
    passed_from INTEGER NOT NULL
) STRICT;
INSERT INTO clinch_pruned (id, up_to, passed_from) VALUES (1, 0, 0);
CREATE TABLE clinch_passed (seq INTEGER PRIMARY KEY) STRICT;
