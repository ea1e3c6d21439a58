-- Keeps letters that came from outside, and counts those that are new.
WITH made AS (
    INSERT INTO clinch_dead_letter (op_id, failed_at, letter, status, seq, domain, event_type,
        biz_key, idem_key, code, fingerprint, late_ok)
    SELECT u.op_id, u.failed_at, u.letter, 0,
        coalesce((SELECT o.seq FROM clinch_operation AS o WHERE o.op_id = u.op_id), 0),
        u.domain, u.event_type, u.biz_key, u.idem_key, u.code, u.fingerprint, u.late_ok
    FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[],
        $7::text[], $8::text[], $9::text[], $10::boolean[])
        AS u (op_id, failed_at, letter, domain, event_type, biz_key, idem_key, code, fingerprint,
            late_ok)
    ON CONFLICT DO NOTHING RETURNING op_id, domain
), counted AS (
    INSERT INTO clinch_delta
        (domain, pending, live, recorded, waiting, held, completed, failed, dead_letters_open)
    SELECT d.id, 0, 0, 0, 0, 0, 0, 0, count(*)
    FROM made JOIN clinch_domain AS d ON d.name = made.domain GROUP BY d.id
)
SELECT op_id FROM made
