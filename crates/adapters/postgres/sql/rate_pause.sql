SELECT clinch_rate_pause($1, $2, $3)
