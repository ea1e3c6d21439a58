SELECT is_granted, wait, value FROM clinch_rate_reserve($1, $2, $3, $4, $5)
