UPDATE clinch_dead_letter SET letter = {letter}, status = {status}, mark = {mark}, seq = {seq},
    domain = {domain}, event_type = {event_type}, biz_key = {biz_key}, idem_key = {idem_key},
    code = {code}, fingerprint = {fingerprint}, late_ok = {late_ok}
WHERE op_id = {id} AND status IS NULL
