    -- By the index of batches.
    AND o.batch_id = ?11
ORDER BY o.seq DESC LIMIT ?14
