-- Version 1. Each statement may be run twice: a step that was cut off is run again. Numbers stand for: status 0 PENDING, 1 IN_PROGRESS, 2 COMPLETED, 3 FAILED;
-- phase 0 live, 1 waiting, 2 held; line 0 waits for nobody, 1 fresh, 2 announced, 3 Finalizer,
-- 4 Reaper, 5 prober. Moments are milliseconds since the Unix epoch, on the server's clock.
-- Text is VARBINARY: every collation of both servers folds case, trailing spaces, or both.

-- One row: whether payloads are sealed, so that what holds no key does not write plain ones.
CREATE TABLE IF NOT EXISTS clinch_meta (
    id TINYINT UNSIGNED NOT NULL PRIMARY KEY,
    sealed TINYINT NOT NULL DEFAULT 0
) ENGINE = InnoDB;
INSERT INTO clinch_meta (id) VALUES (1) ON DUPLICATE KEY UPDATE id = 1;

CREATE TABLE IF NOT EXISTS clinch_domain (
    domain VARBINARY(128) NOT NULL PRIMARY KEY,
    paused TINYINT NOT NULL
) ENGINE = InnoDB;

-- Counters of a domain, spread over slots so that no two commits wait for each other: a
-- connection has its slot, and only the sum means anything.
CREATE TABLE IF NOT EXISTS clinch_count (
    domain VARBINARY(128) NOT NULL,
    slot SMALLINT NOT NULL,
    pending BIGINT NOT NULL,
    live BIGINT NOT NULL,
    recorded BIGINT NOT NULL,
    waiting BIGINT NOT NULL,
    held BIGINT NOT NULL,
    completed BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    PRIMARY KEY (domain, slot)
) ENGINE = InnoDB;

-- The four keys. The nonce tells the row that an accept wrote from one that it found.
CREATE TABLE IF NOT EXISTS clinch_key (
    key_hash BINARY(32) NOT NULL PRIMARY KEY,
    op_id BINARY(16) NOT NULL,
    fingerprint BINARY(33) NOT NULL,
    nonce BIGINT UNSIGNED NOT NULL
) ENGINE = InnoDB;

-- What is left of an operation when it is pruned, beside its key.
CREATE TABLE IF NOT EXISTS clinch_kept (
    key_hash BINARY(32) NOT NULL PRIMARY KEY,
    status TINYINT NOT NULL CHECK (status IN (2, 3)),
    settled_at BIGINT NOT NULL,
    KEY by_age (settled_at)
) ENGINE = InnoDB;

-- What was asked for: written once, so that a change of state never rewrites a payload.
CREATE TABLE IF NOT EXISTS clinch_request (
    seq BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    op_id BINARY(16) NOT NULL,
    accepted_at BIGINT NOT NULL,
    domain VARBINARY(128) NOT NULL,
    event_type VARBINARY(128) NOT NULL,
    biz_key VARBINARY(255) NOT NULL,
    idem_key VARBINARY(255) NOT NULL,
    payload LONGBLOB NOT NULL,
    content_hash BINARY(33) NOT NULL,
    outbound_key VARBINARY(255) NOT NULL,
    rank_no TINYINT NOT NULL CHECK (rank_no BETWEEN -10 AND 10),
    run_at BIGINT,
    asked_deadline BIGINT,
    labels BLOB,
    lane BINARY(32),
    batch_id BINARY(16),
    redrive_of BINARY(16),
    trace VARBINARY(255),
    -- The payload is JSON as somebody's driver spelled it, not in canonical form.
    raw TINYINT NOT NULL DEFAULT 0,
    UNIQUE KEY by_id (op_id),
    KEY by_biz_key (biz_key),
    KEY by_batch (batch_id)
) ENGINE = InnoDB;

-- Open operations: what guards look at, and the place in line. The commit that ends one moves
-- it to clinch_history. The index serves one line at a time: (line, stream, rank_no) name a
-- line, due_at is the order in it.
CREATE TABLE IF NOT EXISTS clinch_queue (
    seq BIGINT UNSIGNED NOT NULL PRIMARY KEY,
    status TINYINT NOT NULL CHECK (status IN (0, 1)),
    phase TINYINT CHECK (phase BETWEEN 0 AND 2),
    version BIGINT UNSIGNED NOT NULL CHECK (version > 0),
    attempt_id BINARY(16),
    next_retry_at BIGINT,
    deadline BIGINT,
    state BLOB NOT NULL,
    dispatch_no BIGINT UNSIGNED NOT NULL,
    started_at BIGINT,
    txn_id VARBINARY(255),
    result LONGBLOB,
    redriven_by BINARY(16),
    line TINYINT NOT NULL CHECK (line BETWEEN 0 AND 5),
    stream VARBINARY(257) NOT NULL,
    rank_no TINYINT NOT NULL,
    due_at BIGINT NOT NULL,
    announced_at BIGINT,
    rounds INT UNSIGNED NOT NULL DEFAULT 0,
    locked_by VARBINARY(128),
    locked_at BIGINT,
    locked_until BIGINT,
    ledger MEDIUMBLOB NOT NULL,
    KEY due (line, stream, rank_no, due_at),
    KEY overdue (deadline),
    CONSTRAINT clinch_phase_belongs_to_in_progress CHECK ((phase IS NOT NULL) = (status = 1)),
    CONSTRAINT clinch_only_what_awaits_a_begin_is_in_line CHECK (
        line NOT IN (1, 2) OR next_retry_at IS NOT NULL),
    CONSTRAINT clinch_only_what_is_in_progress_needs_recovery CHECK (line < 3 OR status = 1)
) ENGINE = InnoDB;

-- Every line of a domain, event type and priority that there ever was: few, and read by whoever
-- looks for work.
CREATE TABLE IF NOT EXISTS clinch_stream (
    stream VARBINARY(257) NOT NULL,
    rank_no TINYINT NOT NULL,
    PRIMARY KEY (stream, rank_no)
) ENGINE = InnoDB;

-- Ended operations.
CREATE TABLE IF NOT EXISTS clinch_history (
    seq BIGINT UNSIGNED NOT NULL PRIMARY KEY,
    status TINYINT NOT NULL CHECK (status IN (2, 3)),
    finished_at BIGINT NOT NULL,
    version BIGINT UNSIGNED NOT NULL,
    attempt_id BINARY(16),
    deadline BIGINT,
    state BLOB NOT NULL,
    dispatch_no BIGINT UNSIGNED NOT NULL,
    started_at BIGINT,
    txn_id VARBINARY(255),
    result LONGBLOB,
    redriven_by BINARY(16),
    ledger MEDIUMBLOB NOT NULL,
    KEY by_age (finished_at)
) ENGINE = InnoDB;

-- Lanes with open operations. The row is locked before a seq is drawn, so that seqs of a lane
-- become visible in their order.
CREATE TABLE IF NOT EXISTS clinch_lane (
    lane BINARY(32) NOT NULL PRIMARY KEY,
    holder BIGINT UNSIGNED
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS clinch_lane_member (
    lane BINARY(32) NOT NULL,
    seq BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (lane, seq)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS clinch_batch (
    batch_id BINARY(16) NOT NULL PRIMARY KEY,
    sealed TINYINT NOT NULL DEFAULT 0,
    total BIGINT UNSIGNED NOT NULL DEFAULT 0,
    completed BIGINT UNSIGNED NOT NULL DEFAULT 0,
    failed BIGINT UNSIGNED NOT NULL DEFAULT 0,
    completed_at BIGINT,
    on_complete LONGBLOB,
    CONSTRAINT clinch_members_end_once CHECK (completed + failed <= total),
    CONSTRAINT clinch_only_a_sealed_batch_completes CHECK (completed_at IS NULL OR sealed = 1)
) ENGINE = InnoDB;

-- The letter itself is written where the operation is not here; otherwise it is read from it.
CREATE TABLE IF NOT EXISTS clinch_dead_letter (
    op_id BINARY(16) NOT NULL PRIMARY KEY,
    failed_at BIGINT NOT NULL,
    letter LONGBLOB,
    KEY by_age (failed_at, op_id)
) ENGINE = InnoDB;

-- Lines of a long ledger that no longer fit beside the row.
CREATE TABLE IF NOT EXISTS clinch_ledger_page (
    seq BIGINT UNSIGNED NOT NULL,
    page BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    lines_of LONGBLOB NOT NULL,
    PRIMARY KEY (page),
    KEY by_operation (seq, page)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS clinch_checkpoint (
    seq BIGINT UNSIGNED NOT NULL PRIMARY KEY,
    bytes LONGBLOB NOT NULL
) ENGINE = InnoDB;

-- What a recorded answer spawns when it is final.
CREATE TABLE IF NOT EXISTS clinch_spawn (
    seq BIGINT UNSIGNED NOT NULL PRIMARY KEY,
    operations LONGBLOB NOT NULL
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS clinch_lock (
    name VARBINARY(255) NOT NULL PRIMARY KEY,
    owner VARBINARY(128) NOT NULL,
    until_at BIGINT NOT NULL,
    fence BIGINT UNSIGNED NOT NULL
) ENGINE = InnoDB;

-- Who may call the API. What is kept of a key is its hash.
CREATE TABLE IF NOT EXISTS clinch_api_key (
    id VARBINARY(255) NOT NULL PRIMARY KEY,
    name VARBINARY(255) NOT NULL,
    hash BINARY(32) NOT NULL UNIQUE,
    scopes VARBINARY(255) NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT
) ENGINE = InnoDB;

-- Every operation, open or ended, for people.
CREATE OR REPLACE VIEW clinch_operation AS
SELECT r.seq, LOWER(HEX(r.op_id)) AS op_id, CONVERT(r.domain USING utf8mb4) AS domain,
    CONVERT(r.event_type USING utf8mb4) AS event_type, CONVERT(r.biz_key USING utf8mb4) AS biz_key,
    CONVERT(r.idem_key USING utf8mb4) AS idem_key, ELT(q.status + 1, 'PENDING', 'IN_PROGRESS') AS status,
    ELT(q.phase + 1, 'live', 'waiting', 'held') AS phase, q.version, q.next_retry_at, q.deadline,
    CONVERT(q.locked_by USING utf8mb4) AS locked_by, q.locked_at, r.accepted_at, q.started_at,
    NULL AS finished_at, CONVERT(q.txn_id USING utf8mb4) AS txn_id
FROM clinch_request AS r JOIN clinch_queue AS q ON q.seq = r.seq
UNION ALL
SELECT r.seq, LOWER(HEX(r.op_id)), CONVERT(r.domain USING utf8mb4),
    CONVERT(r.event_type USING utf8mb4), CONVERT(r.biz_key USING utf8mb4),
    CONVERT(r.idem_key USING utf8mb4), ELT(h.status - 1, 'COMPLETED', 'FAILED'), NULL, h.version,
    NULL, h.deadline, NULL, NULL, r.accepted_at, h.started_at, h.finished_at,
    CONVERT(h.txn_id USING utf8mb4)
FROM clinch_request AS r JOIN clinch_history AS h ON h.seq = r.seq;
