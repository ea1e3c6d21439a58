UPDATE clinch_queue AS q SET ledger = u.ledger
FROM unnest($1::uuid[], $2::bytea[]) AS u (op_id, ledger) WHERE q.op_id = ANY (ARRAY[u.op_id])
