SELECT op_id, domain, event_type FROM clinch_operation WHERE op_id BETWEEN ?1 AND ?2
ORDER BY op_id LIMIT ?3
