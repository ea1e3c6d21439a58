SELECT lane FROM clinch_request WHERE seq = ?1
