SELECT clinch_now()
