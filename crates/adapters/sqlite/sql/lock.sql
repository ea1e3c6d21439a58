SELECT owner, until, fence FROM clinch_lock WHERE name = ?1
