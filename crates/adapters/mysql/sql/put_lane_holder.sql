UPDATE clinch_lane SET holder = {holder} WHERE lane = {lane}
