SELECT record_key, version, body FROM clinch_record
WHERE record_key >= {from} AND record_key < {until} AND record_key <> {except}
ORDER BY record_key LIMIT {limit}
