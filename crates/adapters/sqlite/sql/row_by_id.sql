WHERE op_id = ?1
