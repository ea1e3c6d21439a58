-- Running processes. Each holds a lock of its own (GET_LOCK) for as long as its session lasts: a
-- process whose lock is free has died.
CREATE TABLE IF NOT EXISTS clinch_process (
    process BINARY(8) NOT NULL PRIMARY KEY
) ENGINE = InnoDB;
