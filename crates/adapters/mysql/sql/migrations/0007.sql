-- What a call examines does not grow with the history or the backlog. Every step may be run twice.

-- Announced rows keep their stream, and their rank is how often they were announced: the pause
-- before the next announcement depends on it, and does not grow after 17.
UPDATE clinch_queue SET rounds = 17 WHERE rounds > 17;
UPDATE clinch_queue AS q JOIN clinch_request AS r ON r.seq = q.seq SET
    q.stream = CONCAT(r.domain, X'00', r.event_type), q.rank_no = GREATEST(q.rounds, 1)
WHERE q.line = 2 AND q.stream = '';

-- Announced rows by due time, for the age of the oldest one; and rows that are IN_PROGRESS without a
-- running attempt by the first begin, for those that take too long. The columns are empty in all
-- other rows, so that those are neighbours in the indexes.
SET @clinch_step = (
    SELECT IF(
        COUNT(*) = 0,
        'ALTER TABLE clinch_queue ADD COLUMN announced_stream VARBINARY(257) GENERATED ALWAYS AS (IF(line = 2, stream, NULL)) STORED, ADD COLUMN announced_due BIGINT GENERATED ALWAYS AS (IF(line = 2, next_retry_at, NULL)) STORED, ADD COLUMN unsettled_since BIGINT GENERATED ALWAYS AS (IF(phase IN (1, 2), started_at, NULL)) STORED, ADD KEY announced (announced_stream, announced_due), ADD KEY unsettled (unsettled_since)',
        'DO 0')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'clinch_queue' AND column_name = 'announced_stream');
PREPARE clinch_step FROM @clinch_step;
EXECUTE clinch_step;
DEALLOCATE PREPARE clinch_step;

-- By age, for pruning. COMPLETED and FAILED operations are kept for different times.
SET @clinch_step = (
    SELECT IF(
        COUNT(*) = 0,
        'ALTER TABLE clinch_history ADD KEY by_status_and_age (status, finished_at), DROP KEY by_age',
        'DO 0')
    FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'clinch_history' AND index_name = 'by_status_and_age');
PREPARE clinch_step FROM @clinch_step;
EXECUTE clinch_step;
DEALLOCATE PREPARE clinch_step;

SET @clinch_step = (
    SELECT IF(
        COUNT(*) = 0,
        'ALTER TABLE clinch_batch ADD KEY by_age (completed_at)',
        'DO 0')
    FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'clinch_batch' AND index_name = 'by_age');
PREPARE clinch_step FROM @clinch_step;
EXECUTE clinch_step;
DEALLOCATE PREPARE clinch_step;
