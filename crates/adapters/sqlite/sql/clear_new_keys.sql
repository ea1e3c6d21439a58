DELETE FROM clinch_key_new
