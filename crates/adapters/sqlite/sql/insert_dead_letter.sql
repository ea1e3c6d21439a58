INSERT INTO clinch_dead_letter (op_id, failed_at, letter, status, seq, domain, event_type, biz_key,
    idem_key, code, fingerprint, late_ok)
VALUES (?1, ?2, ?3, 0, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
ON CONFLICT DO NOTHING
