UPDATE clinch_meta SET sealed = {sealed} WHERE id = 1
