-- Sets the status of letters, and counts those that are open. Letters are found by their id:
-- `IS NOT DISTINCT FROM` keeps the index by status out of the plan.
WITH changed AS (
    UPDATE clinch_dead_letter AS l SET status = u.status, mark = u.mark
    FROM unnest($1::uuid[], $2::smallint[], $3::text[], $4::smallint[]) AS u (op_id, status, mark, was)
    WHERE l.op_id = ANY (ARRAY[u.op_id]) AND l.status IS NOT DISTINCT FROM u.was
    RETURNING l.domain, (u.status = 0)::integer - (u.was = 0)::integer AS by
)
INSERT INTO clinch_delta
    (domain, pending, live, recorded, waiting, held, completed, failed, dead_letters_open)
SELECT d.id, 0, 0, 0, 0, 0, 0, 0, sum(changed.by)
FROM changed JOIN clinch_domain AS d ON d.name = changed.domain
WHERE changed.by <> 0 GROUP BY d.id
