INSERT INTO clinch_record (record_key, version, body) VALUES {rows}
ON DUPLICATE KEY UPDATE version = VALUES(version), body = VALUES(body)
