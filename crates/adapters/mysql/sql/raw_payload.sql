SELECT payload FROM clinch_request WHERE op_id = {id} LOCK IN SHARE MODE
