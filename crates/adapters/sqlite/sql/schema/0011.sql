-- The last error of an operation, as JSON. Rows of earlier releases have none.
ALTER TABLE clinch_operation ADD COLUMN last_error TEXT;
