-- Locks operations whose call is under way, in the order that workers never lock in: rows of the
-- queue from the newest to the oldest, then their requests. Rows that it inserts first make its
-- transaction the dearer one, so that the server mostly ends the other. Nothing of it is kept.
--
-- It bites in a crowd only: whoever looks for work skips what is locked, so that the last
-- operation, locked all the time, would never be seen again.
CREATE TABLE IF NOT EXISTS saboteur_over (n INT) ENGINE = InnoDB//
CREATE TABLE IF NOT EXISTS saboteur_weight (n BIGINT UNSIGNED) ENGINE = InnoDB//
CREATE OR REPLACE PROCEDURE saboteur()
BEGIN
    DECLARE newest BIGINT;
    -- A lock that does not come, or a deadlock that it lost.
    DECLARE CONTINUE HANDLER FOR 1205, 1213, 1020 BEGIN END;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET newest = NULL;
    SET SESSION innodb_lock_wait_timeout = 1;
    SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
    WHILE NOT EXISTS (SELECT 1 FROM saboteur_over) DO
        -- Into, and not SET: that would lock what it reads.
        SELECT seq INTO newest FROM clinch_queue WHERE line = 4 ORDER BY RAND() LIMIT 15, 1;
        START TRANSACTION;
        INSERT INTO saboteur_weight SELECT seq FROM seq_1_to_100;
        INSERT INTO saboteur_weight SELECT seq FROM clinch_queue
            WHERE seq BETWEEN newest - 8 AND newest AND line = 4 ORDER BY seq DESC FOR UPDATE;
        DO SLEEP(0.002 + RAND() * 0.008);
        INSERT INTO saboteur_weight SELECT seq FROM clinch_request
            WHERE seq BETWEEN newest - 8 AND newest ORDER BY seq DESC FOR UPDATE;
        ROLLBACK;
        -- Others get their turn too.
        DO SLEEP(0.01);
    END WHILE;
END//
