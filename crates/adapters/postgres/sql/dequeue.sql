-- Rows of these streams that are due and free, in the order of service. Those past their
-- deadline are the sweeper's. Nothing is due before $2: what was is gone.
SELECT q.op_id, q.seq, q.stream, q.accepted_at, q.batch_id, q.biz_key, q.idem_key, q.payload,
    q.content_hash, q.extras, q.labels::text, q.lane, q.status, q.phase, q.version,
    q.next_attempt_at, q.deadline, q.attempt_id, q.state, q.ledger, q.dispatch_no, q.started_at,
    NULL::bigint, q.txn_id, q.result, q.redriven_by, q.line
FROM clinch_stream AS s
JOIN clinch_domain AS d ON d.id = s.domain AND NOT d.paused
CROSS JOIN LATERAL (
    SELECT * FROM clinch_queue AS c
    WHERE c.line = 1 AND c.stream = s.id AND c.next_attempt_at >= $2
        AND c.next_attempt_at <= (SELECT clinch_now())
        AND (c.claim_until IS NULL OR c.claim_until <= (SELECT clinch_now()))
        AND (c.deadline IS NULL OR c.deadline > (SELECT clinch_now()))
        AND c.op_id <> ALL ($4::uuid[])
    ORDER BY c.next_attempt_at, c.seq LIMIT $3
    FOR UPDATE SKIP LOCKED
) AS q
WHERE s.id = ANY ($1::integer[])
ORDER BY s.rank, q.next_attempt_at, q.seq
