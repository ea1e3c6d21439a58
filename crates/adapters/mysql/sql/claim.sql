UPDATE clinch_queue SET locked_by = {by}, locked_at = @clinch_now, locked_until = {until}
WHERE seq IN ({seqs})
