-- New keys in the order of acceptance. In order of their hashes, the keys of one commit were spread over
-- as many pages; now they are neighbours. Processes keep the hashes of this table in memory.
INSERT INTO clinch_key_mid (hash, seq) SELECT hash, seq FROM clinch_key_new ORDER BY hash, seq;
UPDATE clinch_store SET keys_mid = keys_mid + keys_new, keys_new = 0;
DROP TABLE clinch_key_new;
CREATE TABLE clinch_key_new (
    seq INTEGER PRIMARY KEY,
    hash INTEGER NOT NULL
) STRICT;
