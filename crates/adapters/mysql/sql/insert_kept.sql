INSERT INTO clinch_kept (key_hash, status, settled_at) VALUES {rows}
