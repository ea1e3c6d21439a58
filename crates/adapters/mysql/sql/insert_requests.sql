INSERT INTO clinch_request (op_id, accepted_at, domain, event_type, biz_key, idem_key, payload,
    content_hash, outbound_key, rank_no, run_at, asked_deadline, labels, lane, batch_id,
    redrive_of, trace)
VALUES {rows}
