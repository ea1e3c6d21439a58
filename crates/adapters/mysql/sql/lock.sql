SELECT owner, until_at, fence FROM clinch_lock WHERE name = {name} FOR UPDATE
