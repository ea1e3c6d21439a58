-- In the transaction of whoever accepts: told by its commit, which is as durable as it says.
SELECT pg_notify('clinch', p) FROM unnest($1::text[]) AS p
