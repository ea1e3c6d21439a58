-- The deadline of a route counts from run_at. Operations that were accepted before would end
-- before they may run: theirs is moved.
UPDATE clinch_queue AS q JOIN clinch_request AS r ON r.seq = q.seq
SET q.deadline = q.deadline + (q.next_retry_at - r.accepted_at)
WHERE q.status = 0 AND q.deadline <= q.next_retry_at AND r.asked_deadline IS NULL;

-- As before, and refuses a deadline that is not later than run_at.
DROP PROCEDURE IF EXISTS clinch_accept;

-- Accepts an operation from any driver, in the caller's transaction or in one of its own. The
-- same keys with the same JSON are one operation; with other JSON they are an error, and so is
-- everything else that is wrong, as SQLSTATE 45000 with a message that says what to do.
--
-- p_options is NULL or JSON: run_at_ms and deadline_ms (milliseconds since the Unix epoch),
-- priority (-10 to 10), order ("key" for a route that is ordered by key, or "none").
CREATE PROCEDURE clinch_accept(
    IN p_domain VARCHAR(255) CHARACTER SET utf8mb4,
    IN p_event_type VARCHAR(255) CHARACTER SET utf8mb4,
    IN p_biz_key VARCHAR(512) CHARACTER SET utf8mb4,
    IN p_idem_key VARCHAR(512) CHARACTER SET utf8mb4,
    IN p_payload LONGTEXT CHARACTER SET utf8mb4,
    IN p_options TEXT CHARACTER SET utf8mb4,
    OUT p_op_id CHAR(36),
    OUT p_is_new TINYINT
)
MODIFIES SQL DATA
COMMENT 'Takes an operation in, once for its four keys'
BEGIN
    DECLARE v_domain, v_event_type VARBINARY(1024);
    DECLARE v_biz_key, v_idem_key VARBINARY(2048);
    DECLARE v_payload LONGBLOB;
    DECLARE v_known_payload LONGBLOB;
    DECLARE v_now, v_run_at, v_deadline BIGINT;
    DECLARE v_rank INT DEFAULT 0;
    DECLARE v_is_ordered, v_is_behind, v_is_outside, v_is_sealed TINYINT DEFAULT 0;
    DECLARE v_fields LONGBLOB;
    DECLARE v_hash, v_lane, v_digest BINARY(32);
    DECLARE v_op_id, v_known_op_id BINARY(16);
    DECLARE v_print, v_known_print BINARY(33);
    DECLARE v_nonce, v_known_nonce, v_seq BIGINT UNSIGNED;
    DECLARE v_bits, v_hex, v_blank, v_blank_last TEXT CHARACTER SET ascii;
    DECLARE v_outbound VARCHAR(64) CHARACTER SET ascii DEFAULT 'ck1_';
    DECLARE v_at INT DEFAULT 0;
    DECLARE v_message VARCHAR(127) CHARACTER SET utf8mb4;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        IF v_is_outside THEN
            ROLLBACK;
        END IF;
        RESIGNAL;
    END;

    -- What the Rust types refuse is refused here: a row that they cannot read would stop a queue.
    SET v_domain = CAST(p_domain AS BINARY), v_event_type = CAST(p_event_type AS BINARY),
        v_biz_key = CAST(p_biz_key AS BINARY), v_idem_key = CAST(p_idem_key AS BINARY),
        v_payload = CAST(p_payload AS BINARY);
    SET v_blank = '^(20|C2A0|E19A80|E2808[0-9A]|E280A[89F]|E2819F|E38080)';
    SET v_blank_last = '^(..)*(20|C2A0|E19A80|E2808[0-9A]|E280A[89F]|E2819F|E38080)$';
    IF v_domain IS NULL OR LENGTH(v_domain) NOT BETWEEN 1 AND 128
        OR p_domain REGEXP '[^A-Za-z0-9._:-]' THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT =
            'domain must be 1 to 128 letters, digits, dots, dashes, colons or underscores';
    END IF;
    IF v_event_type IS NULL OR LENGTH(v_event_type) NOT BETWEEN 1 AND 128
        OR p_event_type REGEXP '[^A-Za-z0-9._:-]' THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT =
            'event_type must be 1 to 128 letters, digits, dots, dashes, colons or underscores';
    END IF;
    SET v_hex = HEX(v_biz_key);
    IF v_biz_key IS NULL OR LENGTH(v_biz_key) NOT BETWEEN 1 AND 255
        OR v_hex REGEXP '^(..)*([01].|7F|C2[89].)' OR v_hex REGEXP v_blank OR v_hex REGEXP v_blank_last THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT =
            'biz_key must be 1 to 255 bytes without control characters or white space at its ends';
    END IF;
    SET v_hex = HEX(v_idem_key);
    IF v_idem_key IS NULL OR LENGTH(v_idem_key) NOT BETWEEN 1 AND 255
        OR v_hex REGEXP '^(..)*([01].|7F|C2[89].)' OR v_hex REGEXP v_blank OR v_hex REGEXP v_blank_last THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT =
            'idem_key must be 1 to 255 bytes without control characters or white space at its ends';
    END IF;
    IF v_payload IS NULL OR NOT JSON_VALID(p_payload) OR LENGTH(v_payload) > 262144 THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'payload must be JSON of at most 262144 bytes';
    END IF;
    IF p_options IS NOT NULL THEN
        IF NOT JSON_VALID(p_options) OR JSON_TYPE(p_options) <> 'OBJECT' OR JSON_LENGTH(p_options) <>
            JSON_CONTAINS_PATH(p_options, 'one', '$.run_at_ms')
            + JSON_CONTAINS_PATH(p_options, 'one', '$.deadline_ms')
            + JSON_CONTAINS_PATH(p_options, 'one', '$.priority')
            + JSON_CONTAINS_PATH(p_options, 'one', '$.order') THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT =
                'options may hold run_at_ms, deadline_ms, priority and order, as a JSON object';
        END IF;
        IF COALESCE(JSON_TYPE(JSON_EXTRACT(p_options, '$.run_at_ms')), 'INTEGER') <> 'INTEGER'
            OR COALESCE(JSON_TYPE(JSON_EXTRACT(p_options, '$.deadline_ms')), 'INTEGER') <> 'INTEGER'
            OR COALESCE(JSON_TYPE(JSON_EXTRACT(p_options, '$.priority')), 'INTEGER') <> 'INTEGER'
            OR COALESCE(JSON_UNQUOTE(JSON_EXTRACT(p_options, '$.order')), 'none') NOT IN ('key', 'none') THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT =
                'run_at_ms, deadline_ms and priority are whole numbers, order is "key" or "none"';
        END IF;
        SET v_run_at = CAST(JSON_UNQUOTE(JSON_EXTRACT(p_options, '$.run_at_ms')) AS SIGNED),
            v_deadline = CAST(JSON_UNQUOTE(JSON_EXTRACT(p_options, '$.deadline_ms')) AS SIGNED),
            v_rank = -COALESCE(CAST(JSON_UNQUOTE(JSON_EXTRACT(p_options, '$.priority')) AS SIGNED), 0),
            v_is_ordered = COALESCE(JSON_UNQUOTE(JSON_EXTRACT(p_options, '$.order')), 'none') = 'key';
        IF v_deadline <= v_run_at THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT =
                'deadline_ms must be later than run_at_ms, or no attempt could ever begin';
        END IF;
        IF v_rank NOT BETWEEN -10 AND 10 THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'priority must be between -10 and 10';
        END IF;
    END IF;
    SELECT sealed INTO v_is_sealed FROM clinch_meta WHERE id = 1;
    IF v_is_sealed THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT =
            'payloads are sealed here and this procedure holds no key; accept through the API';
    END IF;

    -- A savepoint outside of a transaction is gone at once.
    BEGIN
        DECLARE CONTINUE HANDLER FOR 1305 SET v_is_outside = 1;
        SAVEPOINT clinch_probe;
        ROLLBACK TO SAVEPOINT clinch_probe;
    END;
    IF v_is_outside THEN
        START TRANSACTION;
    END IF;

    -- Digests are over fields, each behind its length; the first is a tag (see core's hash.rs).
    SET v_fields = CONCAT(
        UNHEX(LPAD(HEX(LENGTH(v_domain)), 16, '0')), v_domain,
        UNHEX(LPAD(HEX(LENGTH(v_event_type)), 16, '0')), v_event_type,
        UNHEX(LPAD(HEX(LENGTH(v_biz_key)), 16, '0')), v_biz_key,
        UNHEX(LPAD(HEX(LENGTH(v_idem_key)), 16, '0')), v_idem_key);
    SET v_hash = UNHEX(SHA2(CONCAT(X'000000000000000D', CAST('clinch/keys/1' AS BINARY), v_fields), 256));
    SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000;
    -- A version 7 id: the time, then chance.
    SET v_hex = CONCAT(LPAD(HEX(v_now), 12, '0'), SHA2(CONCAT(UUID(), RAND(), CONNECTION_ID()), 256));
    SET v_op_id = UNHEX(CONCAT(LEFT(v_hex, 12), '7', SUBSTRING(v_hex, 13, 3),
        SUBSTRING('89ab', 1 + (CONV(SUBSTRING(v_hex, 16, 1), 16, 10) MOD 4), 1), SUBSTRING(v_hex, 17, 15)));
    SET v_nonce = CAST(CONV(SUBSTRING(v_hex, 40, 16), 16, 10) AS UNSIGNED);
    -- Version 0 says that the JSON may be spelled in any way: who reads it brings it into order.
    SET v_print = CONCAT(X'00', UNHEX(SHA2(v_payload, 256)));

    INSERT INTO clinch_key (key_hash, op_id, fingerprint, nonce)
    VALUES (v_hash, v_op_id, v_print, v_nonce) ON DUPLICATE KEY UPDATE nonce = clinch_key.nonce;
    SELECT op_id, fingerprint, nonce INTO v_known_op_id, v_known_print, v_known_nonce
    FROM clinch_key WHERE key_hash = v_hash FOR UPDATE;
    SET v_hex = LOWER(HEX(v_known_op_id));
    SET p_op_id = CONCAT(LEFT(v_hex, 8), '-', SUBSTRING(v_hex, 9, 4), '-', SUBSTRING(v_hex, 13, 4), '-',
        SUBSTRING(v_hex, 17, 4), '-', SUBSTRING(v_hex, 21));
    SET p_is_new = v_known_nonce = v_nonce;

    IF NOT p_is_new AND v_known_print <> v_print AND v_known_print <> CONCAT(X'01', UNHEX(SHA2(CONCAT(
        X'0000000000000014', CAST('clinch/fingerprint/1' AS BINARY),
        UNHEX(LPAD(HEX(LENGTH(v_payload)), 16, '0')), v_payload), 256))) THEN
        -- Not the same text; the same JSON?
        SET @clinch_same = NULL, @clinch_known = NULL, @clinch_offered = p_payload;
        SELECT CONVERT(payload USING utf8mb4) INTO @clinch_known FROM clinch_request
        WHERE op_id = v_known_op_id LOCK IN SHARE MODE;
        IF @clinch_known IS NULL THEN
            SET v_message = CONCAT(p_op_id, ' has these keys and was pruned: its payload cannot be compared');
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = v_message;
        END IF;
        IF VERSION() NOT LIKE '%MariaDB%' THEN
            SET @clinch_sql = 'SELECT CAST(? AS JSON) = CAST(? AS JSON) INTO @clinch_same';
        ELSEIF VERSION() LIKE '10.6.%' THEN
            SET v_message = CONCAT(p_op_id,
                ' has these keys; MariaDB 10.6 cannot compare JSON, send the same text or use 10.7');
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = v_message;
        ELSE
            SET @clinch_sql = 'SELECT JSON_EQUALS(?, ?) INTO @clinch_same';
        END IF;
        PREPARE clinch_compare FROM @clinch_sql;
        EXECUTE clinch_compare USING @clinch_known, @clinch_offered;
        DEALLOCATE PREPARE clinch_compare;
        IF NOT COALESCE(@clinch_same, 0) THEN
            SET v_message = CONCAT('idempotency_mismatch: ', p_op_id, ' has these keys and another payload');
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = v_message;
        END IF;
    END IF;

    IF p_is_new THEN
        SET v_digest = UNHEX(SHA2(CONCAT(X'0000000000000011', CAST('clinch/outbound/1' AS BINARY), v_fields), 256));
        SET v_bits = '', v_at = 1;
        WHILE v_at <= 24 DO
            SET v_bits = CONCAT(v_bits, LPAD(CONV(HEX(SUBSTRING(v_digest, v_at, 1)), 16, 2), 8, '0')), v_at = v_at + 1;
        END WHILE;
        SET v_bits = CONCAT(v_bits, '000'), v_at = 0;
        WHILE v_at < 39 DO
            SET v_outbound = CONCAT(v_outbound, SUBSTRING('abcdefghijklmnopqrstuvwxyz234567',
                1 + CONV(SUBSTRING(v_bits, v_at * 5 + 1, 5), 2, 10), 1)), v_at = v_at + 1;
        END WHILE;
        SET v_digest = UNHEX(SHA2(CONCAT(X'0000000000000010', CAST('clinch/content/1' AS BINARY),
            X'0000000000000010', v_op_id,
            UNHEX(LPAD(HEX(LENGTH(v_event_type)), 16, '0')), v_event_type,
            UNHEX(LPAD(HEX(LENGTH(v_payload)), 16, '0')), v_payload), 256));
        IF v_is_ordered THEN
            SET v_lane = UNHEX(SHA2(CONCAT(X'000000000000000D', CAST('clinch/lane/1' AS BINARY),
                UNHEX(LPAD(HEX(LENGTH(v_domain)), 16, '0')), v_domain,
                UNHEX(LPAD(HEX(LENGTH(v_biz_key)), 16, '0')), v_biz_key), 256));
            INSERT INTO clinch_lane (lane) VALUES (v_lane) ON DUPLICATE KEY UPDATE lane = clinch_lane.lane;
            SELECT COUNT(*) INTO v_is_behind FROM (
                SELECT seq FROM clinch_lane_member WHERE lane = v_lane LIMIT 1 LOCK IN SHARE MODE) AS one;
        END IF;
        INSERT INTO clinch_request (op_id, accepted_at, domain, event_type, biz_key, idem_key, payload,
            content_hash, outbound_key, rank_no, run_at, asked_deadline, lane, raw)
        VALUES (v_op_id, v_now, v_domain, v_event_type, v_biz_key, v_idem_key, v_payload,
            CONCAT(X'01', v_digest), v_outbound, v_rank, v_run_at, v_deadline, v_lane, 1);
        SET v_seq = LAST_INSERT_ID();
        IF NOT EXISTS (SELECT 1 FROM clinch_stream
            WHERE stream = CONCAT(v_domain, X'00', v_event_type) AND rank_no = v_rank) THEN
            INSERT INTO clinch_stream (stream, rank_no) VALUES (CONCAT(v_domain, X'00', v_event_type), v_rank)
            ON DUPLICATE KEY UPDATE rank_no = clinch_stream.rank_no;
        END IF;
        -- The packed state of a new operation, and the line of its history that says so.
        INSERT INTO clinch_queue (seq, status, version, next_retry_at, deadline, state, dispatch_no,
            line, stream, rank_no, due_at, ledger)
        VALUES (v_seq, 0, 1, GREATEST(COALESCE(v_run_at, v_now), v_now), v_deadline, X'010000000000', 0,
            IF(v_is_behind, 0, 1), IF(v_is_behind, '', CONCAT(v_domain, X'00', v_event_type)),
            IF(v_is_behind, 0, v_rank), IF(v_is_behind, 0, GREATEST(COALESCE(v_run_at, v_now), v_now)), X'00000F000001');
        IF v_is_ordered THEN
            INSERT INTO clinch_lane_member (lane, seq) VALUES (v_lane, v_seq);
        END IF;
        INSERT INTO clinch_count (domain, slot, pending, live, recorded, waiting, held, completed, failed)
        VALUES (v_domain, CONNECTION_ID() MOD 64, 1, 0, 0, 0, 0, 0, 0)
        ON DUPLICATE KEY UPDATE pending = pending + 1;
    END IF;
    IF v_is_outside THEN
        COMMIT;
    END IF;
END
