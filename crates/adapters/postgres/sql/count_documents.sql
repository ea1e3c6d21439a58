SELECT kind, count(*) FROM clinch_document WHERE collection = $1 GROUP BY kind
