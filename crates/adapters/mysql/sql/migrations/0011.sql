-- Documents of one resource by kind, for lists that read no bodies: the index holds all that a list
-- returns.
SET @clinch_sql = (
    SELECT IF(
        COUNT(*) = 0,
        'ALTER TABLE clinch_document ADD KEY by_resource (collection, user, resource, kind, id)',
        'DO 0'
    )
    FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'clinch_document' AND index_name = 'by_resource'
);
PREPARE clinch_step FROM @clinch_sql;
EXECUTE clinch_step;
DEALLOCATE PREPARE clinch_step;
