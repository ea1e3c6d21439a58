DELETE FROM clinch_kept WHERE key_hash IN ({hashes})
