DELETE FROM clinch_request WHERE seq = ?1
