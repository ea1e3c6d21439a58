-- Locks nothing if the row exists.
INSERT INTO clinch_stream (stream, rank_no)
SELECT {stream}, {rank} FROM DUAL
WHERE NOT EXISTS (SELECT 1 FROM clinch_stream WHERE stream = {stream} AND rank_no = {rank})
ON DUPLICATE KEY UPDATE rank_no = clinch_stream.rank_no
