-- What an application knows besides its operations. Version 0 is a place that a transaction
-- holds; no other sees one.
CREATE TABLE IF NOT EXISTS clinch_record (
    record_key VARBINARY(255) NOT NULL PRIMARY KEY,
    version BIGINT UNSIGNED NOT NULL,
    body LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL
) ENGINE = InnoDB;

-- Documents of an application. Bodies are text and not JSON: they are kept to the byte.
CREATE TABLE IF NOT EXISTS clinch_document (
    collection VARBINARY(255) NOT NULL,
    id VARBINARY(255) NOT NULL,
    kind VARBINARY(255) NOT NULL,
    user VARBINARY(255) NOT NULL,
    resource VARBINARY(255) NOT NULL,
    body LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    PRIMARY KEY (collection, id),
    KEY by_user (collection, user, kind, id)
) ENGINE = InnoDB;
