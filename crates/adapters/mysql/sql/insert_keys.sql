INSERT INTO clinch_key (key_hash, op_id, fingerprint, nonce) VALUES {rows}
ON DUPLICATE KEY UPDATE nonce = clinch_key.nonce
