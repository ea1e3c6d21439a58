INSERT INTO clinch_dead_letter (op_id, failed_at, letter, status, seq, domain, event_type, biz_key,
    idem_key, code, fingerprint)
SELECT r.op_id, {at}, {letter}, 0, r.seq, {domain}, {event_type}, r.biz_key, r.idem_key, {code},
    {fingerprint}
FROM clinch_request AS r WHERE r.seq = {seq}
ON DUPLICATE KEY UPDATE op_id = clinch_dead_letter.op_id
