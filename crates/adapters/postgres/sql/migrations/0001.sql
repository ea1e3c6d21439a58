-- Version 1. Numbers stand for: status 0 PENDING, 1 IN_PROGRESS, 2 COMPLETED, 3 FAILED;
-- phase 0 live, 1 waiting, 2 held; line 0 not in line, 1 fresh, 2 announced; need 1 Finalizer,
-- 2 Reaper, 3 prober. Moments are milliseconds since the Unix epoch, on the server's clock.

-- The store's clock. Everything that compares times asks here.
CREATE FUNCTION clinch_now() RETURNS bigint LANGUAGE sql VOLATILE
AS 'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint';

-- One row: whether payloads are sealed, so that what holds no key does not write plain ones.
CREATE TABLE clinch_meta (
    id boolean PRIMARY KEY DEFAULT true CHECK (id),
    sealed boolean NOT NULL DEFAULT false
);
INSERT INTO clinch_meta DEFAULT VALUES;

-- Draws the place of each operation among those of its key.
CREATE SEQUENCE clinch_seq;

-- Pause and counters of a domain. The counters lag behind clinch_delta, which is added on
-- top by whoever reads and folded in from time to time.
CREATE TABLE clinch_domain (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    used boolean NOT NULL DEFAULT false,
    paused boolean NOT NULL DEFAULT false,
    pending bigint NOT NULL DEFAULT 0,
    live bigint NOT NULL DEFAULT 0,
    recorded bigint NOT NULL DEFAULT 0,
    waiting bigint NOT NULL DEFAULT 0,
    held bigint NOT NULL DEFAULT 0,
    completed bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- What commits added to the counters: appended, so that no two commits wait for each other.
CREATE TABLE clinch_delta (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    domain integer NOT NULL,
    pending bigint NOT NULL,
    live bigint NOT NULL,
    recorded bigint NOT NULL,
    waiting bigint NOT NULL,
    held bigint NOT NULL,
    completed bigint NOT NULL,
    failed bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0);

-- A line of rows of one domain, event type and priority; lower ranks are served first.
CREATE TABLE clinch_stream (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    domain integer NOT NULL REFERENCES clinch_domain,
    event_type text COLLATE "C" NOT NULL,
    rank smallint NOT NULL CHECK (rank BETWEEN -10 AND 10),
    UNIQUE (domain, event_type, rank)
);

-- Who is named in ledgers.
CREATE TABLE clinch_worker (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE
);

-- The four keys: 4 bytes of the business key, then 20 of the hash of all four.
CREATE TABLE clinch_key (
    key bytea NOT NULL PRIMARY KEY CHECK (length(key) = 24),
    op_id uuid NOT NULL,
    fingerprint bytea NOT NULL
);
CREATE UNIQUE INDEX clinch_key_by_id ON clinch_key (op_id);

-- What is left of an operation when it is pruned, beside its key.
CREATE TABLE clinch_kept (
    op_id uuid NOT NULL PRIMARY KEY,
    status smallint NOT NULL CHECK (status IN (2, 3)),
    settled_at bigint NOT NULL
);
CREATE INDEX clinch_kept_by_age ON clinch_kept (settled_at);

-- Open operations: what was asked for, what guards look at, and the place in line. The commit
-- that ends an operation moves it to clinch_history.
CREATE TABLE clinch_queue (
    op_id uuid NOT NULL PRIMARY KEY,
    seq bigint NOT NULL,
    accepted_at bigint NOT NULL,
    next_attempt_at bigint,
    deadline bigint,
    need_at bigint,
    version bigint NOT NULL CHECK (version > 0),
    dispatch_no bigint NOT NULL DEFAULT 0,
    started_at bigint,
    announced_at bigint,
    claim_until bigint,
    claimed_at bigint,
    stream integer NOT NULL,
    rounds integer,
    status smallint NOT NULL CHECK (status IN (0, 1)),
    phase smallint CHECK (phase BETWEEN 0 AND 2),
    line smallint NOT NULL CHECK (line BETWEEN 0 AND 2),
    need smallint CHECK (need BETWEEN 1 AND 3),
    attempt_id uuid,
    batch_id uuid,
    redriven_by uuid,
    biz_key text COLLATE "C" NOT NULL,
    idem_key text COLLATE "C" NOT NULL,
    content_hash bytea NOT NULL,
    state bytea NOT NULL,
    ledger bytea NOT NULL,
    payload bytea NOT NULL,
    lane bytea CHECK (length(lane) = 32),
    extras text,
    labels jsonb,
    claim_by text,
    txn_id text,
    result bytea,
    CONSTRAINT a_phase_belongs_to_in_progress CHECK ((phase IS NOT NULL) = (status = 1)),
    CONSTRAINT a_next_attempt_belongs_to_pending_and_waiting CHECK (
        (next_attempt_at IS NOT NULL) = (status = 0 OR phase IS NOT DISTINCT FROM 1)),
    CONSTRAINT only_what_awaits_a_begin_is_in_line CHECK (line = 0 OR next_attempt_at IS NOT NULL),
    CONSTRAINT only_what_is_in_progress_needs_recovery CHECK (
        need IS NULL OR (status = 1 AND need_at IS NOT NULL))
) WITH (fillfactor = 70, toast_tuple_target = 1024, autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 50000);
ALTER TABLE clinch_queue ALTER COLUMN payload SET STORAGE EXTERNAL;

CREATE INDEX clinch_fresh ON clinch_queue (stream, next_attempt_at, seq) WHERE line = 1;
CREATE INDEX clinch_announced ON clinch_queue (announced_at) WHERE line = 2;
CREATE INDEX clinch_overdue ON clinch_queue (deadline)
    WHERE next_attempt_at IS NOT NULL AND deadline IS NOT NULL;
CREATE INDEX clinch_needy ON clinch_queue (need, need_at) WHERE need IS NOT NULL;
CREATE INDEX clinch_lane ON clinch_queue (lane, seq) WHERE lane IS NOT NULL;
CREATE INDEX clinch_queue_by_batch ON clinch_queue (batch_id) WHERE batch_id IS NOT NULL;

-- Ended operations, by the day on which they ended, so that old ones go as a whole.
CREATE TABLE clinch_history (
    op_id uuid NOT NULL,
    seq bigint NOT NULL,
    accepted_at bigint NOT NULL,
    finished_at bigint NOT NULL,
    deadline bigint,
    version bigint NOT NULL,
    dispatch_no bigint NOT NULL,
    started_at bigint,
    stream integer NOT NULL,
    status smallint NOT NULL CHECK (status IN (2, 3)),
    attempt_id uuid,
    batch_id uuid,
    redriven_by uuid,
    biz_key text COLLATE "C" NOT NULL,
    idem_key text COLLATE "C" NOT NULL,
    content_hash bytea NOT NULL,
    state bytea NOT NULL,
    ledger bytea NOT NULL,
    payload bytea NOT NULL,
    lane bytea,
    extras text,
    labels jsonb,
    txn_id text,
    result bytea
) PARTITION BY RANGE (finished_at);
CREATE INDEX clinch_history_by_id ON clinch_history (op_id);
CREATE INDEX clinch_history_by_seq ON clinch_history (seq);
CREATE INDEX clinch_history_by_age ON clinch_history (finished_at);
CREATE INDEX clinch_history_by_batch ON clinch_history (batch_id) WHERE batch_id IS NOT NULL;
CREATE TABLE clinch_history_default PARTITION OF clinch_history DEFAULT;

-- Every operation, open or ended.
CREATE VIEW clinch_operation AS
SELECT op_id, seq, stream, accepted_at, batch_id, biz_key, idem_key, payload, content_hash,
    extras, labels, lane, status, phase, version, next_attempt_at, deadline, attempt_id, state,
    ledger, dispatch_no, started_at, NULL::bigint AS finished_at, txn_id, result, redriven_by, line
FROM clinch_queue
UNION ALL
SELECT op_id, seq, stream, accepted_at, batch_id, biz_key, idem_key, payload, content_hash,
    extras, labels, lane, status, NULL::smallint, version, NULL::bigint, deadline, attempt_id,
    state, ledger, dispatch_no, started_at, finished_at, txn_id, result, redriven_by, 0::smallint
FROM clinch_history;

CREATE TABLE clinch_batch (
    batch_id uuid PRIMARY KEY,
    sealed boolean NOT NULL DEFAULT false,
    total bigint NOT NULL DEFAULT 0,
    completed bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    completed_at bigint,
    on_complete text,
    CONSTRAINT members_end_once CHECK (completed + failed <= total),
    CONSTRAINT only_a_sealed_batch_completes CHECK (completed_at IS NULL OR sealed)
) WITH (fillfactor = 50);

-- The letter itself is written where the operation is not here; otherwise it is read from it.
CREATE TABLE clinch_dead_letter (
    op_id uuid PRIMARY KEY,
    failed_at bigint NOT NULL,
    letter text
);
CREATE INDEX clinch_dead_letter_by_age ON clinch_dead_letter (failed_at, op_id);

-- Lines of a long ledger that no longer fit beside the row.
CREATE TABLE clinch_ledger_page (
    op_id uuid NOT NULL,
    page bigint GENERATED ALWAYS AS IDENTITY,
    lines bytea NOT NULL,
    PRIMARY KEY (op_id, page)
);

CREATE TABLE clinch_checkpoint (op_id uuid PRIMARY KEY, bytes bytea NOT NULL);

-- What a recorded answer spawns when it is final.
CREATE TABLE clinch_spawn (op_id uuid PRIMARY KEY, operations text NOT NULL);

CREATE TABLE clinch_lock (
    name text COLLATE "C" PRIMARY KEY,
    owner text NOT NULL,
    until bigint NOT NULL,
    fence bigint NOT NULL
) WITH (fillfactor = 50);

-- Who may call the API. What is kept of a key is its hash.
CREATE TABLE clinch_api_key (
    id text COLLATE "C" PRIMARY KEY,
    name text NOT NULL,
    hash bytea NOT NULL UNIQUE CHECK (length(hash) = 32),
    scopes text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint
);
