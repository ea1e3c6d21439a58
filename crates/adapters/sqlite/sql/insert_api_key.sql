INSERT INTO clinch_api_key (id, name, hash, scopes, created_at, expires_at, revoked_at, domains,
    event_types)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (id) DO NOTHING
