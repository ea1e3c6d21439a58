SELECT up_to, passed_from FROM clinch_pruned WHERE id = 1
