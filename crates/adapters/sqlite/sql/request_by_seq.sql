SELECT
    biz_key, idem_key, payload, content_hash, fingerprint, outbound_key, run_at,
    asked_deadline, labels, lane, redrive_of, trace
FROM clinch_request WHERE seq = ?1
