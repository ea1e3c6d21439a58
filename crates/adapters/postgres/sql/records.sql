SELECT key, version, body FROM clinch_record WHERE key = ANY($1)
