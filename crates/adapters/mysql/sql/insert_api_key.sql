INSERT INTO clinch_api_key (id, name, hash, scopes, created_at, expires_at, revoked_at, domains,
    event_types)
VALUES {row}
ON DUPLICATE KEY UPDATE id = clinch_api_key.id
