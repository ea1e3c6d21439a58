UPDATE clinch_batch SET completed_at = {at}, on_complete = NULL WHERE batch_id = {id}
