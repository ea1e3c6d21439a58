DELETE FROM clinch_process AS p
WHERE p.process = $1 AND NOT EXISTS (
    SELECT FROM clinch_queue AS q WHERE q.need = 2 AND q.attempt_id BETWEEN $2 AND $3)
