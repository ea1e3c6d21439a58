UPDATE clinch_dead_letter SET status = {status}, mark = {mark}
WHERE op_id = {id} AND status = {was}
