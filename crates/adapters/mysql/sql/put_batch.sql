UPDATE clinch_batch SET sealed = {sealed}, total = {total}, completed = {completed}, failed = {failed}
WHERE batch_id = {id}
