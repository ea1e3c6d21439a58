SELECT id, name, hash, scopes, created_at, expires_at, revoked_at, domains,
    event_types FROM clinch_api_key ORDER BY created_at, id
