-- Deletes ended operations that are old enough, with what goes with them. Their keys stay.
WITH old AS (
    SELECT op_id, finished_at FROM (
        (SELECT op_id, finished_at FROM clinch_history
        WHERE status = 2 AND finished_at <= $1::bigint ORDER BY finished_at LIMIT $3)
        UNION ALL
        (SELECT op_id, finished_at FROM clinch_history
        WHERE status = 3 AND finished_at <= $2::bigint ORDER BY finished_at LIMIT $3)
    ) AS both_kinds ORDER BY finished_at LIMIT $3
), gone AS (
    DELETE FROM clinch_history AS h USING old
    WHERE h.op_id = ANY (ARRAY[old.op_id]) AND h.finished_at = old.finished_at
    RETURNING h.op_id, h.status, h.finished_at, h.stream
), kept AS (
    INSERT INTO clinch_kept SELECT op_id, status, finished_at FROM gone
), letters AS (
    DELETE FROM clinch_dead_letter AS l USING gone WHERE l.op_id = ANY (ARRAY[gone.op_id])
    RETURNING l.domain, l.status
), letters_counted AS (
    INSERT INTO clinch_delta
        (domain, pending, live, recorded, waiting, held, completed, failed, dead_letters_open)
    SELECT d.id, 0, 0, 0, 0, 0, 0, 0, -count(*)
    FROM letters JOIN clinch_domain AS d ON d.name = letters.domain
    WHERE letters.status = 0 GROUP BY d.id
), pages AS (
    DELETE FROM clinch_ledger_page AS p USING gone WHERE p.op_id = ANY (ARRAY[gone.op_id])
), checkpoints AS (
    DELETE FROM clinch_checkpoint AS c USING gone WHERE c.op_id = ANY (ARRAY[gone.op_id])
), counted AS (
    INSERT INTO clinch_delta (domain, pending, live, recorded, waiting, held, completed, failed)
    SELECT s.domain, 0, 0, 0, 0, 0, -count(*) FILTER (WHERE gone.status = 2),
        -count(*) FILTER (WHERE gone.status = 3)
    FROM gone JOIN clinch_stream AS s ON s.id = gone.stream GROUP BY s.domain
)
SELECT count(*) FROM gone
