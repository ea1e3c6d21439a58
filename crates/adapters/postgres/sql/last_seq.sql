-- The newest operation below a seq.
SELECT greatest((SELECT max(seq) FROM clinch_queue WHERE seq < $1),
    (SELECT max(seq) FROM clinch_history WHERE seq < $1))
