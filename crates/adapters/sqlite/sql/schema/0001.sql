-- Version 1. Numbers stand for: status 0 PENDING, 1 IN_PROGRESS, 2 COMPLETED, 3 FAILED;
-- phase 0 live, 1 waiting, 2 held; effect 0 none, 1 unknown; recorded 0 empty, 1 yes,
-- 2 no, 3 done; line 0 not in line, 1 fresh, 2 announced; need 1 Finalizer, 2 Reaper,
-- 3 prober. Moments are milliseconds since the Unix epoch. Names are ids of table name.

-- One row: the last seq, and the stand of the levels of the key index. The counts are those
-- of the rows in clinch_key_new and clinch_key_mid; keys_from is the first hash that the next
-- slice moves. The limits are here so that every process on the file has the same.
CREATE TABLE clinch_store (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    last_seq INTEGER NOT NULL,
    keys_new INTEGER NOT NULL DEFAULT 0 CHECK (keys_new >= 0),
    keys_mid INTEGER NOT NULL DEFAULT 0 CHECK (keys_mid >= 0),
    keys_from INTEGER NOT NULL DEFAULT -9223372036854775808,
    keys_new_max INTEGER NOT NULL DEFAULT 8192 CHECK (keys_new_max >= 0),
    keys_mid_max INTEGER NOT NULL DEFAULT 262144 CHECK (keys_mid_max >= 0)
) STRICT;
INSERT INTO clinch_store (id, last_seq) VALUES (1, 0);

CREATE TABLE clinch_name (
    id INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE clinch_domain (
    id INTEGER PRIMARY KEY,
    paused INTEGER NOT NULL CHECK (paused IN (0, 1)),
    pending INTEGER NOT NULL,
    live INTEGER NOT NULL,
    recorded INTEGER NOT NULL,
    waiting INTEGER NOT NULL,
    held INTEGER NOT NULL,
    completed INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    CONSTRAINT counters_count_rows CHECK (
        min(pending, live, recorded, waiting, held, completed, failed) >= 0)
) STRICT;

-- What was asked for: written once, so that a change of state never rewrites a payload.
CREATE TABLE clinch_request (
    seq INTEGER PRIMARY KEY,
    biz_key TEXT NOT NULL,
    idem_key TEXT NOT NULL,
    payload BLOB NOT NULL,
    content_hash BLOB NOT NULL,
    fingerprint BLOB NOT NULL,
    outbound_key TEXT NOT NULL,
    run_at INTEGER,
    asked_deadline INTEGER,
    labels TEXT,
    lane BLOB CHECK (length(lane) = 32),
    redrive_of BLOB,
    trace TEXT
) STRICT;

-- What guards look at, and its place in the queue.
CREATE TABLE clinch_operation (
    seq INTEGER PRIMARY KEY,
    op_id BLOB NOT NULL CHECK (length(op_id) = 16),
    domain INTEGER NOT NULL,
    event_type INTEGER NOT NULL,
    accepted_at INTEGER NOT NULL,
    batch_id BLOB,
    rank INTEGER NOT NULL CHECK (rank BETWEEN -10 AND 10),
    laned INTEGER NOT NULL,
    status INTEGER NOT NULL CHECK (status BETWEEN 0 AND 3),
    phase INTEGER CHECK (phase BETWEEN 0 AND 2),
    version INTEGER NOT NULL CHECK (version > 0),
    fence INTEGER NOT NULL,
    attempt_id BLOB,
    attempts INTEGER NOT NULL,
    maybe_calls INTEGER NOT NULL,
    deliveries INTEGER NOT NULL,
    effect INTEGER NOT NULL CHECK (effect IN (0, 1)),
    first_call_at INTEGER,
    call_deadline INTEGER,
    lease_until INTEGER,
    next_attempt_at INTEGER,
    deadline INTEGER,
    recorded INTEGER NOT NULL CHECK (recorded BETWEEN 0 AND 3),
    recorded_fence INTEGER,
    flags INTEGER NOT NULL,
    refund INTEGER,
    refund_first_call_at INTEGER,
    hold TEXT,
    failure TEXT,
    failure_effect INTEGER,
    dispatch_no INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER,
    txn_id TEXT,
    result BLOB,
    redriven_by BLOB,
    line INTEGER NOT NULL CHECK (line BETWEEN 0 AND 2),
    need INTEGER CHECK (need BETWEEN 1 AND 3),
    need_at INTEGER,
    announced_at INTEGER,
    rounds INTEGER,
    claim_by TEXT,
    claim_until INTEGER,
    claimed_at INTEGER,
    ledger BLOB NOT NULL,
    CONSTRAINT a_phase_belongs_to_in_progress CHECK ((phase IS NOT NULL) = (status = 1)),
    CONSTRAINT a_lease_belongs_to_live CHECK ((lease_until IS NOT NULL) = (phase IS 0)),
    CONSTRAINT a_refund_belongs_to_live CHECK ((refund IS NOT NULL) = (phase IS 0)),
    CONSTRAINT a_next_attempt_belongs_to_pending_and_waiting CHECK (
        (next_attempt_at IS NOT NULL) = (status = 0 OR phase IS 1)),
    CONSTRAINT a_hold_belongs_to_held CHECK ((hold IS NOT NULL) = (phase IS 2)),
    CONSTRAINT held_means_effect_unknown CHECK (phase IS NOT 2 OR effect = 1),
    CONSTRAINT a_failure_belongs_to_failed_or_a_recorded_fail CHECK (
        (failure IS NOT NULL) = (status = 3 OR recorded = 2)),
    CONSTRAINT failed_says_what_is_known_of_the_effect CHECK (
        status <> 3 OR failure_effect IS effect),
    CONSTRAINT a_recorded_outcome_is_finalized_from_live CHECK (
        recorded NOT IN (1, 2) OR phase IS 0),
    CONSTRAINT a_recorded_outcome_has_its_fence CHECK (
        (recorded_fence IS NOT NULL) = (recorded IN (1, 2))),
    CONSTRAINT completed_leaves_nothing_unknown CHECK (status <> 2 OR effect = 0),
    CONSTRAINT every_attempt_raised_the_fence CHECK (attempts <= fence),
    CONSTRAINT a_live_attempt_may_have_called CHECK (phase IS NOT 0 OR (
        attempt_id IS NOT NULL AND attempts > 0 AND first_call_at IS NOT NULL)),
    CONSTRAINT only_what_awaits_a_begin_is_in_line CHECK (line = 0 OR next_attempt_at IS NOT NULL),
    CONSTRAINT only_what_is_in_progress_needs_recovery CHECK (
        need IS NULL OR (status = 1 AND need_at IS NOT NULL))
) STRICT;

CREATE UNIQUE INDEX clinch_operation_by_id ON clinch_operation (op_id);
CREATE INDEX clinch_operation_by_batch ON clinch_operation (batch_id) WHERE batch_id IS NOT NULL;

-- The queue: these hold open operations only, in the order in which they are served. The
-- terminal commit takes an operation out of them; its history stays behind.
CREATE INDEX clinch_fresh ON clinch_operation (domain, event_type, rank, next_attempt_at) WHERE line = 1;
CREATE INDEX clinch_announced ON clinch_operation (announced_at) WHERE line = 2;
CREATE INDEX clinch_overdue ON clinch_operation (deadline)
    WHERE next_attempt_at IS NOT NULL AND deadline IS NOT NULL;
CREATE INDEX clinch_needy ON clinch_operation (need, need_at) WHERE need IS NOT NULL;

-- The four keys, shortened to 64 bits: 32 of biz_key, 32 of all four. Equality is judged by
-- the keys themselves. Each key is in one of three tables: an accept writes to the first, and
-- what is too much for one is merged into the next in order of hash.
CREATE TABLE clinch_key_new (
    hash INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (hash, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE clinch_key_mid (
    hash INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (hash, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE clinch_key (
    hash INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (hash, seq)
) STRICT, WITHOUT ROWID;

-- What is left of an operation when it is pruned.
CREATE TABLE clinch_kept_key (
    seq INTEGER PRIMARY KEY,
    hash INTEGER NOT NULL,
    key_hash BLOB NOT NULL CHECK (length(key_hash) = 32),
    op_id BLOB NOT NULL CHECK (length(op_id) = 16),
    fingerprint BLOB NOT NULL,
    status INTEGER NOT NULL CHECK (status IN (2, 3)),
    settled_at INTEGER NOT NULL
) STRICT;
CREATE INDEX clinch_kept_key_by_age ON clinch_kept_key (settled_at);

-- Open operations of a lane; the holder stands before those that follow.
CREATE TABLE clinch_lane (
    lane BLOB NOT NULL,
    follows INTEGER NOT NULL CHECK (follows IN (0, 1)),
    seq INTEGER NOT NULL,
    PRIMARY KEY (lane, follows, seq)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX clinch_one_holder_a_lane ON clinch_lane (lane) WHERE follows = 0;

CREATE TABLE clinch_batch (
    batch_id BLOB PRIMARY KEY,
    sealed INTEGER NOT NULL CHECK (sealed IN (0, 1)),
    total INTEGER NOT NULL,
    completed INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    completed_at INTEGER,
    on_complete TEXT,
    CONSTRAINT members_end_once CHECK (completed + failed <= total),
    CONSTRAINT only_a_sealed_batch_completes CHECK (completed_at IS NULL OR sealed = 1)
) STRICT, WITHOUT ROWID;

CREATE TABLE clinch_dead_letter (
    op_id BLOB PRIMARY KEY,
    failed_at INTEGER NOT NULL,
    letter TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX clinch_dead_letter_by_age ON clinch_dead_letter (failed_at, op_id);

-- Lines of a long ledger that no longer fit beside the row.
CREATE TABLE clinch_ledger_page (
    seq INTEGER NOT NULL,
    page INTEGER NOT NULL,
    lines BLOB NOT NULL,
    PRIMARY KEY (seq, page)
) STRICT, WITHOUT ROWID;

CREATE TABLE clinch_checkpoint (
    seq INTEGER PRIMARY KEY,
    bytes BLOB NOT NULL
) STRICT;

-- What a recorded answer spawns when it is final.
CREATE TABLE clinch_spawn (
    seq INTEGER PRIMARY KEY,
    operations TEXT NOT NULL
) STRICT;

CREATE TABLE clinch_lock (
    name TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    until INTEGER NOT NULL,
    fence INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
