-- Who may call the API. What is kept of a key is its hash.
CREATE TABLE clinch_api_key (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    -- Names with commas between them.
    scopes TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;
