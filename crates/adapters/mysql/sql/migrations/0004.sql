-- The domains and event types that a key is restricted to, and that the opener of a batch was.
-- Names with commas between them; empty: all. MySQL has no ADD COLUMN IF NOT EXISTS, and every
-- step may be run twice.

SET @clinch_step = (
    SELECT IF(
        COUNT(*) = 0,
        'ALTER TABLE clinch_api_key ADD COLUMN domains VARBINARY(8192) NOT NULL DEFAULT '''', ADD COLUMN event_types VARBINARY(8192) NOT NULL DEFAULT ''''',
        'DO 0')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'clinch_api_key' AND column_name = 'domains');
PREPARE clinch_step FROM @clinch_step;
EXECUTE clinch_step;
DEALLOCATE PREPARE clinch_step;

SET @clinch_step = (
    SELECT IF(
        COUNT(*) = 0,
        'ALTER TABLE clinch_batch ADD COLUMN domains VARBINARY(8192) NOT NULL DEFAULT '''', ADD COLUMN event_types VARBINARY(8192) NOT NULL DEFAULT ''''',
        'DO 0')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'clinch_batch' AND column_name = 'domains');
PREPARE clinch_step FROM @clinch_step;
EXECUTE clinch_step;
DEALLOCATE PREPARE clinch_step;
