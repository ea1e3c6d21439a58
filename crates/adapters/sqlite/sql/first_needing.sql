SELECT need_at FROM clinch_operation WHERE need = ?1 ORDER BY need_at LIMIT 1
