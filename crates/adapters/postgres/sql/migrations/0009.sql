-- The latest time that a process vouched for; ages of what is pruned count by it. At first the
-- last moment that the tables know of.
CREATE TABLE clinch_clock (
    id boolean PRIMARY KEY DEFAULT true CHECK (id),
    seen_at bigint
);
INSERT INTO clinch_clock (seen_at) SELECT greatest(
    (SELECT max(accepted_at) FROM clinch_queue),
    (SELECT max(finished_at) FROM clinch_history),
    (SELECT max(settled_at) FROM clinch_kept));
