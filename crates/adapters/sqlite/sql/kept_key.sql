SELECT key_hash, op_id, fingerprint, status FROM clinch_kept_key WHERE seq = ?1
