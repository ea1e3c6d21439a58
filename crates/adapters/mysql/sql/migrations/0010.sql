-- What became of a dead letter (status 0 open, 1 redriven, 2 dismissed; mark: the details as JSON),
-- and what lists filter by. A letter without a status was written by an earlier release: processes
-- of this one complete it. By seq is the order of acceptance, which is that of every lane. Domains
-- count their open letters.
SET @clinch_sql = (
    SELECT IF(
        (SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE()
            AND table_name = 'clinch_dead_letter' AND column_name = 'status') = 0,
        'ALTER TABLE clinch_dead_letter ADD COLUMN status TINYINT CHECK (status BETWEEN 0 AND 2), ADD COLUMN mark BLOB, ADD COLUMN seq BIGINT, ADD COLUMN domain VARBINARY(128), ADD COLUMN event_type VARBINARY(128), ADD COLUMN biz_key VARBINARY(255), ADD COLUMN idem_key VARBINARY(255), ADD COLUMN code VARBINARY(1024), ADD COLUMN fingerprint VARBINARY(64), ADD COLUMN late_ok TINYINT NOT NULL DEFAULT 0, ADD KEY by_status (status, failed_at, op_id), ADD KEY by_seq (status, seq, op_id)',
        'DO 0'
    )
);
PREPARE clinch_step FROM @clinch_sql;
EXECUTE clinch_step;
DEALLOCATE PREPARE clinch_step;
SET @clinch_sql = (
    SELECT IF(
        (SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE()
            AND table_name = 'clinch_count' AND column_name = 'dead_letters_open') = 0,
        'ALTER TABLE clinch_count ADD COLUMN dead_letters_open BIGINT NOT NULL DEFAULT 0',
        'DO 0'
    )
);
PREPARE clinch_step FROM @clinch_sql;
EXECUTE clinch_step;
DEALLOCATE PREPARE clinch_step;
