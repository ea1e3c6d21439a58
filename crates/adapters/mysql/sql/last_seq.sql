-- The newest operation below a seq.
SELECT MAX(seq) FROM clinch_request WHERE seq < {below}
