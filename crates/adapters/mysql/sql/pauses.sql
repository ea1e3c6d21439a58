SELECT domain, paused_at, actor, reason FROM clinch_pause
