-- Every key, of a schema whose keys know no domains.
SELECT id, name, hash, scopes, created_at, expires_at, revoked_at, '', '' FROM clinch_api_key
