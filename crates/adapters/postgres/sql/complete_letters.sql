-- Completes letters that an earlier release has written, and counts those that are open.
WITH completed AS (
    UPDATE clinch_dead_letter AS l SET letter = u.letter, status = u.status, mark = u.mark,
        seq = u.seq, domain = u.domain, event_type = u.event_type, biz_key = u.biz_key,
        idem_key = u.idem_key, code = u.code, fingerprint = u.fingerprint, late_ok = u.late_ok
    FROM unnest($1::uuid[], $2::text[], $3::smallint[], $4::text[], $5::bigint[], $6::text[],
        $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::boolean[])
        AS u (op_id, letter, status, mark, seq, domain, event_type, biz_key, idem_key, code,
            fingerprint, late_ok)
    WHERE l.op_id = ANY (ARRAY[u.op_id]) AND l.status IS NULL
    RETURNING l.domain, l.status
)
INSERT INTO clinch_delta
    (domain, pending, live, recorded, waiting, held, completed, failed, dead_letters_open)
SELECT d.id, 0, 0, 0, 0, 0, 0, 0, count(*)
FROM completed AS c JOIN clinch_domain AS d ON d.name = c.domain WHERE c.status = 0 GROUP BY d.id
