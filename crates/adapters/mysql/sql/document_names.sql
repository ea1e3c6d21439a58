SELECT id, kind, user, resource FROM clinch_document FORCE INDEX ({index})
WHERE collection = {collection} AND id > {after} AND ({user} IS NULL OR user = {user})
    AND ({kind} IS NULL OR kind = {kind}) AND ({resource} IS NULL OR resource = {resource})
ORDER BY id LIMIT {limit}
