SELECT pg_notify('clinch', p) FROM unnest($1::text[]) AS p
