SELECT lane, trace FROM clinch_request WHERE seq = ?1
