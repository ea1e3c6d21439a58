DELETE FROM clinch_lane WHERE lane IN ({lanes})
