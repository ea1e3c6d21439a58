INSERT INTO clinch_dead_letter (op_id, failed_at, letter, status, seq, domain, event_type, biz_key,
    idem_key, code, fingerprint, late_ok)
SELECT {id}, {at}, {letter}, 0, COALESCE((SELECT r.seq FROM clinch_request AS r WHERE r.op_id = {id}), 0),
    {domain}, {event_type}, {biz_key}, {idem_key}, {code}, {fingerprint}, {late_ok}
ON DUPLICATE KEY UPDATE op_id = clinch_dead_letter.op_id
