INSERT INTO clinch_request (
    seq, biz_key, idem_key, payload, content_hash, fingerprint, outbound_key, run_at,
    asked_deadline, labels, lane, redrive_of, trace
) VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13
)
