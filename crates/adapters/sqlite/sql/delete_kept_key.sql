DELETE FROM clinch_kept_key WHERE seq = ?1
