-- Every key, in a schema version whose keys have no restriction.
SELECT id, name, hash, scopes, created_at, expires_at, revoked_at, '', '' FROM clinch_api_key
