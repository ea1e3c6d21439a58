-- The newest operation below a seq.
SELECT max(seq) FROM clinch_operation WHERE seq < ?1
