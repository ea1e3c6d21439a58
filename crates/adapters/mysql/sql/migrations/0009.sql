-- Who paused a domain, when and why. The pause itself is in clinch_domain.
CREATE TABLE IF NOT EXISTS clinch_pause (
    domain VARBINARY(128) NOT NULL PRIMARY KEY,
    paused_at BIGINT NOT NULL,
    actor VARBINARY(128) NOT NULL,
    reason VARBINARY(4096) NOT NULL
) ENGINE = InnoDB;
