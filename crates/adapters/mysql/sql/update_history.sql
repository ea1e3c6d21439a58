UPDATE clinch_history SET ledger = {ledger}, state = {state} WHERE seq = {seq}
