SELECT key, version, body FROM clinch_record WHERE key = ?1
