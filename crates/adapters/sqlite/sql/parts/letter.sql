SELECT l.op_id, l.failed_at, l.seq, l.domain, l.event_type, l.biz_key, l.idem_key, l.fingerprint,
    l.mark, l.late_ok, l.letter
