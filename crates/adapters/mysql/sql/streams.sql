SELECT stream, rank_no FROM clinch_stream
