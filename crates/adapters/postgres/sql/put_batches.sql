UPDATE clinch_batch AS b SET sealed = u.sealed, total = u.total, completed = u.completed,
    failed = u.failed, completed_at = u.completed_at
FROM unnest($1::uuid[], $2::boolean[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])
    AS u (batch_id, sealed, total, completed, failed, completed_at)
WHERE b.batch_id = ANY (ARRAY[u.batch_id])
