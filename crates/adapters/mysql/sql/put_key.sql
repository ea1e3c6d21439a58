UPDATE clinch_key SET op_id = {id}, fingerprint = {fingerprint} WHERE key_hash = {hash}
