-- Running processes. Each holds the advisory lock of its number for as long as its session lasts:
-- a process whose lock is free has died.
CREATE TABLE clinch_process (
    process bigint NOT NULL PRIMARY KEY
);
