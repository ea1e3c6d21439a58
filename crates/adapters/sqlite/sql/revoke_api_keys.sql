UPDATE clinch_api_key SET revoked_at = ?1 WHERE revoked_at IS NULL
