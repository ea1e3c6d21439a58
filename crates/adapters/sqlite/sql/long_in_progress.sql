-- Without a running attempt by the first begin; with one, or with a recorded answer, by the end of
-- the lease, of which ?3 are looked at.
SELECT op_id FROM (
    SELECT op_id FROM clinch_operation INDEXED BY clinch_unsettled
    WHERE phase IN (1, 2) AND started_at < ?1 ORDER BY started_at LIMIT ?2)
UNION ALL
SELECT op_id FROM (
    SELECT op_id, started_at FROM clinch_operation INDEXED BY clinch_needy
    WHERE need = 2 ORDER BY need_at LIMIT ?3)
WHERE started_at < ?1
UNION ALL
SELECT op_id FROM (
    SELECT op_id, started_at FROM clinch_operation INDEXED BY clinch_needy
    WHERE need = 1 ORDER BY need_at LIMIT ?3)
WHERE started_at < ?1
LIMIT ?2
