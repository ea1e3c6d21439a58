UPDATE clinch_lock SET owner = {owner}, until_at = {until}, fence = {fence} WHERE name = {name}
