-- What an application knows besides its operations.
CREATE TABLE clinch_record (
    key text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL,
    body text NOT NULL
);

-- Documents of an application. Bodies are text and not jsonb: they are kept to the byte.
CREATE TABLE clinch_document (
    collection text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    "user" text COLLATE "C" NOT NULL,
    resource text COLLATE "C" NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (collection, id)
);

CREATE INDEX clinch_document_user ON clinch_document (collection, "user", kind, id);
