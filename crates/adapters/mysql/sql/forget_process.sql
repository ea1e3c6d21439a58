DELETE FROM clinch_process WHERE process = {process} AND NOT EXISTS (
    SELECT 1 FROM clinch_queue AS q FORCE INDEX (due)
    WHERE q.line = {line} AND q.stream = '' AND q.rank_no = 0
        AND q.attempt_id BETWEEN {first} AND {last})
