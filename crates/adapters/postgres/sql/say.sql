-- Tells whoever listens, in a transaction of its own that writes nothing. A message that a crash
-- loses is made up for by the bound of every wait, so this commit, and no other, does not wait
-- for the disk.
SELECT pg_notify('clinch', p), set_config('synchronous_commit', 'off', true)
FROM unnest($1::text[]) AS p
