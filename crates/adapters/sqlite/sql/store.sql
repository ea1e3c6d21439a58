SELECT last_seq, keys_new, keys_mid, keys_from, keys_new_max, keys_mid_max FROM clinch_store
