SELECT l.op_id, l.failed_at, l.seq, {selected}, l.domain, l.event_type, l.biz_key, l.idem_key,
    l.fingerprint, l.mark, l.late_ok, IF({selected}, l.letter, NULL)
FROM clinch_dead_letter AS l FORCE INDEX ({index})
WHERE {range} ORDER BY {order} LIMIT {limit}
