SELECT key, version, body FROM clinch_record
WHERE key >= $1 AND key < $2 AND key <> $3 ORDER BY key DESC LIMIT $4
