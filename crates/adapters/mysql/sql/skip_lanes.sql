SELECT lane FROM clinch_lane WHERE lane IN ({lanes}) FOR UPDATE SKIP LOCKED
