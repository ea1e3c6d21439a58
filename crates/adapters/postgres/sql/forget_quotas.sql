DELETE FROM clinch_quota WHERE key = ANY (ARRAY(
    SELECT key FROM clinch_quota WHERE ends_at <= clinch_now()
    ORDER BY ends_at LIMIT 10 FOR UPDATE SKIP LOCKED))
