-- Makes open letters of operations that just ended, and counts them. The keys are read from there.
WITH made AS (
    INSERT INTO clinch_dead_letter (op_id, failed_at, letter, status, seq, domain, event_type,
        biz_key, idem_key, code, fingerprint)
    SELECT h.op_id, h.finished_at, u.letter, 0, h.seq, d.name, s.event_type, h.biz_key, h.idem_key,
        u.code, u.fingerprint
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) AS u (op_id, letter, code, fingerprint)
    JOIN clinch_history AS h ON h.op_id = ANY (ARRAY[u.op_id])
    JOIN clinch_stream AS s ON s.id = h.stream
    JOIN clinch_domain AS d ON d.id = s.domain
    ON CONFLICT DO NOTHING RETURNING domain
)
INSERT INTO clinch_delta
    (domain, pending, live, recorded, waiting, held, completed, failed, dead_letters_open)
SELECT d.id, 0, 0, 0, 0, 0, 0, 0, count(*)
FROM made JOIN clinch_domain AS d ON d.name = made.domain GROUP BY d.id
