SELECT last_seq FROM clinch_store
