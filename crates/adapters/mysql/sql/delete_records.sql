DELETE FROM clinch_record WHERE record_key IN ({keys})
