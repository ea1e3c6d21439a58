INSERT INTO clinch_api_key (id, name, hash, scopes, created_at, expires_at, revoked_at)
VALUES {row}
ON DUPLICATE KEY UPDATE id = clinch_api_key.id
