SELECT key, version FROM clinch_record WHERE key = ANY($1) ORDER BY key FOR UPDATE
