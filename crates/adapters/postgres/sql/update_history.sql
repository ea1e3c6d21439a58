-- Ended operations never change but for their ledger.
UPDATE clinch_history AS h SET ledger = u.ledger
FROM unnest($1::uuid[], $2::bytea[]) AS u (op_id, ledger) WHERE h.op_id = u.op_id
