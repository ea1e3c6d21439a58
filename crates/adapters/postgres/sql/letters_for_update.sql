SELECT op_id, domain, mark FROM clinch_dead_letter
WHERE op_id = ANY ($1::uuid[]) AND status IS NOT NULL ORDER BY op_id FOR UPDATE
