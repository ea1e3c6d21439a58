-- One at a time for each lane, in one order, until the end of the transaction.
SELECT pg_advisory_xact_lock(l.lock)
FROM (SELECT DISTINCT unnest($1::bigint[]) AS lock ORDER BY lock) AS l
