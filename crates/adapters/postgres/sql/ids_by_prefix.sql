(SELECT op_id, stream FROM clinch_queue WHERE op_id >= $1 AND op_id <= $2 ORDER BY op_id LIMIT $3)
UNION ALL
(SELECT op_id, stream FROM clinch_history WHERE op_id >= $1 AND op_id <= $2 ORDER BY op_id LIMIT $3)
ORDER BY op_id LIMIT $3
