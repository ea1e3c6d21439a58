-- Who paused a domain, when and why. The pause itself is in clinch_domain.
CREATE TABLE clinch_pause (
    domain INTEGER PRIMARY KEY,
    paused_at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    reason TEXT NOT NULL
) STRICT;
