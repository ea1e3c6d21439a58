SELECT o.op_id, o.status, r.fingerprint, o.domain, o.event_type, r.biz_key, r.idem_key
FROM clinch_operation AS o JOIN clinch_request AS r ON r.seq = o.seq WHERE o.seq = ?1
