INSERT INTO clinch_ledger_page (op_id, lines) SELECT * FROM unnest($1::uuid[], $2::bytea[])
