SELECT DISTINCT stream, rank_no FROM clinch_queue FORCE INDEX (due) WHERE line = 1
