-- Documents of one resource by kind, for lists that read no bodies.
CREATE INDEX clinch_document_resource
    ON clinch_document (collection, "user", resource, kind, id);
