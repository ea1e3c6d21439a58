-- Who paused a domain, when and why. The pause itself is in clinch_domain.
CREATE TABLE clinch_pause (
    domain text COLLATE "C" NOT NULL PRIMARY KEY,
    paused_at bigint NOT NULL,
    actor text NOT NULL,
    reason text NOT NULL
);
