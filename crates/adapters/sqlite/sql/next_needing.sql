SELECT need_at, claim_until FROM clinch_operation WHERE need = ?1 ORDER BY need_at, seq
