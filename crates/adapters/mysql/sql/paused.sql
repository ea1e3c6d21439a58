SELECT domain, paused FROM clinch_domain LOCK IN SHARE MODE
