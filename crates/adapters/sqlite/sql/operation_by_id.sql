WHERE o.op_id = ?1
