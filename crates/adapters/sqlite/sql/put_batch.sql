UPDATE clinch_batch SET sealed = ?2, total = ?3, completed = ?4, failed = ?5 WHERE batch_id = ?1
