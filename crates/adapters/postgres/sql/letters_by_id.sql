SELECT l.op_id, l.failed_at, l.seq, true, l.domain, l.event_type, l.biz_key, l.idem_key,
    l.fingerprint, l.mark, l.late_ok, l.letter
FROM clinch_dead_letter AS l WHERE l.op_id = ANY ($1::uuid[]) AND l.status IS NOT NULL
