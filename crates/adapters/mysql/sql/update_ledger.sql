UPDATE clinch_queue SET ledger = {ledger} WHERE seq = {seq}
