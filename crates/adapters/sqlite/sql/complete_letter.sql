UPDATE clinch_dead_letter SET status = ?2, mark = ?3, seq = ?4, domain = ?5, event_type = ?6,
    biz_key = ?7, idem_key = ?8, code = ?9, fingerprint = ?10, late_ok = ?11
WHERE op_id = ?1
