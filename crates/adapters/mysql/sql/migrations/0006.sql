-- The latest time that a process vouched for; ages of what is pruned count by it. At first the
-- last moment that the tables know of.
CREATE TABLE IF NOT EXISTS clinch_clock (
    id TINYINT UNSIGNED NOT NULL PRIMARY KEY,
    seen_at BIGINT
) ENGINE = InnoDB;
INSERT IGNORE INTO clinch_clock (id, seen_at) SELECT 1, COALESCE(
    (SELECT accepted_at FROM clinch_request ORDER BY seq DESC LIMIT 1),
    (SELECT MAX(settled_at) FROM clinch_kept));
