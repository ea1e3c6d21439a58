INSERT INTO clinch_kept_key (seq, hash, key_hash, op_id, fingerprint, status, settled_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
