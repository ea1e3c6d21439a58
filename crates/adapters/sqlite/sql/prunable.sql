SELECT o.op_id, o.status, o.finished_at, o.domain, o.event_type, r.biz_key, r.idem_key, r.fingerprint
FROM clinch_operation AS o JOIN clinch_request AS r ON r.seq = o.seq WHERE o.seq = ?1 AND o.status >= 2
