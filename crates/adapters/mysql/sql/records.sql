SELECT record_key, version, body FROM clinch_record WHERE record_key IN ({keys})
