-- Locks what workers are busy with, in the order that they never lock in: rows of the queue from
-- the newest to the oldest, then their requests. Rows that it inserts first make its transaction
-- the dearer one, so that the server mostly ends the other. Nothing that it does is kept.
CREATE TABLE IF NOT EXISTS saboteur_over (n INT) ENGINE = InnoDB//
CREATE TABLE IF NOT EXISTS saboteur_weight (n BIGINT UNSIGNED) ENGINE = InnoDB//
CREATE OR REPLACE PROCEDURE saboteur()
BEGIN
    DECLARE newest BIGINT UNSIGNED;
    -- A lock that does not come, or a deadlock that it lost.
    DECLARE CONTINUE HANDLER FOR 1205, 1213, 1020 BEGIN END;
    SET SESSION innodb_lock_wait_timeout = 1;
    SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
    WHILE NOT EXISTS (SELECT 1 FROM saboteur_over) DO
        SET newest = (SELECT seq FROM clinch_queue WHERE status = 1 ORDER BY RAND() LIMIT 1);
        START TRANSACTION;
        INSERT INTO saboteur_weight SELECT seq FROM seq_1_to_100;
        INSERT INTO saboteur_weight SELECT seq FROM clinch_queue
            WHERE seq BETWEEN newest - 8 AND newest ORDER BY seq DESC FOR UPDATE;
        DO SLEEP(0.005 + RAND() * 0.02);
        INSERT INTO saboteur_weight SELECT seq FROM clinch_request
            WHERE seq BETWEEN newest - 8 AND newest ORDER BY seq DESC FOR UPDATE;
        ROLLBACK;
    END WHILE;
END//
