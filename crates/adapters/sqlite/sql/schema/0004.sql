-- Whether the file is whole without its log, and which opening of it was the last.
CREATE TABLE clinch_file (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    -- 0: closed, and whole without its log. 1: in use, its log lies beside it. 2: a backup.
    state INTEGER NOT NULL,
    -- Drawn when it was opened last, and the time before; also in the folder beside the file.
    opened BLOB NOT NULL,
    opened_before BLOB NOT NULL
) STRICT;

INSERT INTO clinch_file (id, state, opened, opened_before) VALUES (1, 0, x'', x'');
