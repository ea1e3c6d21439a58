-- The domains and event types that a key is restricted to, and that the opener of a batch was.
-- Names with commas between them; empty: all.
ALTER TABLE clinch_api_key
    ADD COLUMN domains text NOT NULL DEFAULT '',
    ADD COLUMN event_types text NOT NULL DEFAULT '';
ALTER TABLE clinch_batch
    ADD COLUMN domains text NOT NULL DEFAULT '',
    ADD COLUMN event_types text NOT NULL DEFAULT '';
