DELETE FROM clinch_api_key WHERE id = ?1
