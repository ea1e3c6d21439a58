DELETE FROM clinch_pause WHERE domain = {domain}
