    AND (?11 IS NULL OR o.batch_id = ?11)
    -- By the key index.
    AND o.seq IN (
        -- Among the new keys, which are looked up in memory.
        SELECT value FROM json_each(?19)
        UNION ALL SELECT seq FROM clinch_key_mid WHERE hash BETWEEN ?18 AND ?18 + 4294967295
        UNION ALL SELECT seq FROM clinch_key WHERE hash BETWEEN ?18 AND ?18 + 4294967295)
ORDER BY o.seq DESC LIMIT ?14
