-- Ended operations never change but for their ledger, and for the mark of a late yes.
UPDATE clinch_history AS h SET ledger = u.ledger, state = u.state
FROM unnest($1::uuid[], $2::bytea[], $3::bytea[]) AS u (op_id, ledger, state) WHERE h.op_id = ANY (ARRAY[u.op_id])
