-- Budgets with providers, one for all nodes. `ends_at` is when nothing of the row matters any more.
CREATE TABLE clinch_quota (
    key text COLLATE "C" PRIMARY KEY,
    quota_limit bigint,
    remaining bigint,
    reset_at bigint,
    asking_until bigint,
    blocked_until bigint,
    ends_at bigint NOT NULL
) WITH (fillfactor = 50);

CREATE INDEX clinch_quota_ends_at ON clinch_quota (ends_at);
