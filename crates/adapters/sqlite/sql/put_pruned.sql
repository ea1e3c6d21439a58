UPDATE clinch_pruned SET up_to = max(up_to, ?1), passed_from = ?2 WHERE id = 1
