UPDATE clinch_api_key SET revoked_at = {at} WHERE id IN ({ids}) AND revoked_at IS NULL
