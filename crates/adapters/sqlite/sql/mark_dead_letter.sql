UPDATE clinch_dead_letter SET letter = json_set(letter, '$.late_ok', json('true')) WHERE op_id = ?1
