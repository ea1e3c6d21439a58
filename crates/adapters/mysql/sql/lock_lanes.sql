SELECT lane, holder FROM clinch_lane WHERE lane IN ({lanes}) ORDER BY lane FOR UPDATE
