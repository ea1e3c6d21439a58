-- The next number of announcements among announced rows: one step of a skip scan.
SELECT rounds FROM clinch_operation INDEXED BY clinch_announced
WHERE line = 2 AND domain = ?1 AND event_type = ?2 AND rounds > ?3
ORDER BY rounds LIMIT 1
