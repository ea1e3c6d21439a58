DELETE FROM clinch_document
WHERE collection = {collection} AND id IN ({ids}) AND ({user} IS NULL OR user = {user})
    AND ({kind} IS NULL OR kind = {kind}) AND ({resource} IS NULL OR resource = {resource})
