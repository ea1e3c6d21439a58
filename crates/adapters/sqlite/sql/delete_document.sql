DELETE FROM clinch_document WHERE seq = ?1
