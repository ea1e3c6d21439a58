DELETE FROM clinch_document WHERE collection = {collection} AND id IN ({ids})
