-- The latest time that a process vouched for; ages of what is pruned count by it. At first the
-- last moment that the file knows of.
CREATE TABLE clinch_clock (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    seen_at INTEGER
) STRICT;
INSERT INTO clinch_clock (id, seen_at) VALUES (1, coalesce(
    (SELECT accepted_at FROM clinch_operation ORDER BY seq DESC LIMIT 1),
    (SELECT max(settled_at) FROM clinch_kept_key)));
