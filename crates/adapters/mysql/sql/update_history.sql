UPDATE clinch_history SET ledger = {ledger} WHERE seq = {seq}
