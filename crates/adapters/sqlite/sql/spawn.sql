SELECT operations FROM clinch_spawn
WHERE seq = (SELECT seq FROM clinch_operation WHERE op_id = ?1)
