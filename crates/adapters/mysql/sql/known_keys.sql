SELECT k.key_hash, k.op_id, p.status, q.status, h.status
FROM clinch_key AS k
LEFT JOIN clinch_kept AS p ON p.key_hash = k.key_hash
LEFT JOIN clinch_request AS r ON r.op_id = k.op_id
LEFT JOIN clinch_queue AS q ON q.seq = r.seq
LEFT JOIN clinch_history AS h ON h.seq = r.seq
WHERE k.key_hash IN ({hashes})
