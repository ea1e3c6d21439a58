-- Documents of one resource by kind, for lists that read no bodies: the tree holds all that a list
-- returns. A page of a resource adds neighbours to it.
CREATE INDEX clinch_document_resource ON clinch_document (collection, user, resource, kind, id);
