SELECT record_key, version FROM clinch_record FORCE INDEX (PRIMARY) WHERE record_key IN ({keys})
ORDER BY record_key FOR UPDATE
