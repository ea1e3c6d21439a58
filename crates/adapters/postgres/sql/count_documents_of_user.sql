SELECT kind, count(*) FROM clinch_document WHERE collection = $1 AND "user" = $2 GROUP BY kind
