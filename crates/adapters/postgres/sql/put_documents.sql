INSERT INTO clinch_document (collection, id, kind, "user", resource, body)
SELECT $1, unnest($2::text[]), unnest($3::text[]), unnest($4::text[]), unnest($5::text[]),
    unnest($6::text[])
ON CONFLICT (collection, id) DO UPDATE SET kind = excluded.kind, "user" = excluded."user",
    resource = excluded.resource, body = excluded.body
