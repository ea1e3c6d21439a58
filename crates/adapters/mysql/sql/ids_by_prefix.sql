SELECT op_id, domain, event_type FROM clinch_request WHERE op_id BETWEEN {first} AND {last}
ORDER BY op_id LIMIT {limit}
