-- The indexes of rows that await a begin or recovery hold open operations only.
SELECT domain, event_type FROM clinch_operation INDEXED BY clinch_fresh WHERE line = 1
UNION ALL
SELECT domain, event_type FROM clinch_operation INDEXED BY clinch_announced WHERE line = 2
UNION ALL
SELECT domain, event_type FROM clinch_operation INDEXED BY clinch_needy WHERE need IS NOT NULL
