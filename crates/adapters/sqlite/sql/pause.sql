SELECT paused_at, actor, reason FROM clinch_pause WHERE domain = ?1
