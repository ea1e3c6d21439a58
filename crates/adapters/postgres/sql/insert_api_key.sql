INSERT INTO clinch_api_key (id, name, hash, scopes, created_at, expires_at, revoked_at)
VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO NOTHING
