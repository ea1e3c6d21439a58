-- Letters of any status, newest first. Says of each whether the filter selects it.
SELECT l.op_id, l.failed_at, l.seq, f.selected, l.domain, l.event_type, l.biz_key, l.idem_key,
    l.fingerprint, l.mark, l.late_ok, CASE WHEN f.selected THEN l.letter END
FROM clinch_dead_letter AS l
CROSS JOIN LATERAL (SELECT ($6::text[] IS NULL OR l.domain = ANY ($6))
    AND ($7::text[] IS NULL OR l.event_type = ANY ($7))
    AND ($8::text IS NULL OR l.biz_key = $8) AND ($9::text IS NULL OR l.idem_key = $9)
    AND ($10::text IS NULL OR l.code = $10) AND ($11::text IS NULL OR l.fingerprint = $11)
    AND ($12::bigint IS NULL OR l.failed_at >= $12) AND ($13::bigint IS NULL OR l.failed_at < $13)
    AND ($14::bigint IS NULL OR l.seq <= $14) AS selected) AS f
WHERE $1::smallint IS NULL AND l.status IS NOT NULL
    AND (l.failed_at, l.op_id) < ($2::bigint, $3::uuid) AND l.failed_at >= $4::bigint
ORDER BY l.failed_at DESC, l.op_id DESC LIMIT $5::bigint
