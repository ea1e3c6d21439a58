DELETE FROM clinch_lane_member WHERE lane = {lane} AND seq IN ({seqs})
