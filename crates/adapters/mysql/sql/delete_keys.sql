DELETE FROM clinch_key WHERE key_hash IN ({hashes})
