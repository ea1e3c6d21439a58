, r.biz_key, r.idem_key, r.payload, r.content_hash, r.outbound_key, r.run_at, r.asked_deadline,
    r.labels, r.redrive_of, r.trace, r.raw,
    (SELECT c.bytes FROM clinch_checkpoint AS c WHERE c.seq = r.seq)
