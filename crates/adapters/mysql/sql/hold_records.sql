INSERT INTO clinch_record (record_key, version, body) VALUES {rows}
ON DUPLICATE KEY UPDATE record_key = clinch_record.record_key
