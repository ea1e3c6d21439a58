SELECT id FROM clinch_document WHERE collection = {collection} AND id IN ({ids})
ORDER BY id FOR UPDATE
