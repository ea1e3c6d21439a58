SELECT key_hash, op_id, fingerprint, nonce FROM clinch_key WHERE key_hash IN ({hashes}) FOR UPDATE
