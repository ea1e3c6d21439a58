WHERE o.seq = ?1
