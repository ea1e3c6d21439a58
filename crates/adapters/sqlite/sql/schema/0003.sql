-- What an application knows besides its operations.
CREATE TABLE clinch_record (
    -- Not WITHOUT ROWID: bodies may be large, and would leave no room for keys in a page.
    key TEXT NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT;

-- Documents of an application. New ones are neighbours at the end of the table, whatever their
-- ids; the trees that are in order of ids hold no bodies.
CREATE TABLE clinch_document (
    seq INTEGER PRIMARY KEY,
    collection TEXT NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    user TEXT NOT NULL,
    resource TEXT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (collection, id)
) STRICT;

CREATE INDEX clinch_document_user ON clinch_document (collection, user, kind, id);
