SELECT kind, COUNT(*) FROM clinch_document
WHERE collection = {collection} AND ({user} IS NULL OR user = {user}) GROUP BY kind
