-- The deadline of a route counts from run_at. Operations that were accepted before would end
-- before they may run: theirs is moved.
UPDATE clinch_queue SET deadline = deadline + (next_attempt_at - accepted_at)
WHERE status = 0 AND deadline <= next_attempt_at
    AND (extras IS NULL OR extras::json ->> 'deadline' IS NULL);

-- As before, and refuses a deadline that is not later than run_at.
CREATE OR REPLACE FUNCTION clinch_accept(
    domain text, event_type text, biz_key text, idem_key text, payload json,
    run_at timestamptz DEFAULT NULL, deadline timestamptz DEFAULT NULL,
    priority integer DEFAULT 0, labels jsonb DEFAULT NULL, trace text DEFAULT NULL,
    ordered boolean DEFAULT false,
    OUT op_id uuid, OUT is_new boolean
) LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    at constant bigint := clinch_now();
    raw bytea; key bytea; print bytea; known bytea; lane bytea; fnv bigint := 2166136261;
    due bigint; ends bigint; stream_id integer; domain_id integer; new_stream boolean := false;
    is_head boolean := true; extras json; byte integer;
    most constant integer := (SELECT m.payload_max FROM clinch_meta AS m);
BEGIN
    IF (SELECT m.sealed FROM clinch_meta AS m) THEN
        RAISE EXCEPTION 'payloads are sealed and the database holds no key; accept through Clinch'
            USING ERRCODE = 'feature_not_supported';
    END IF;
    PERFORM clinch_check_name('domain', domain);
    PERFORM clinch_check_name('event_type', event_type);
    PERFORM clinch_check_text('biz_key', biz_key, 255);
    PERFORM clinch_check_text('idem_key', idem_key, 255);
    IF labels IS NOT NULL THEN
        PERFORM clinch_check_labels(labels);
    END IF;
    IF trace !~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' THEN
        RAISE EXCEPTION 'trace must be a W3C traceparent'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF priority IS NULL OR priority NOT BETWEEN -10 AND 10 THEN
        RAISE EXCEPTION 'priority must be from -10 to 10'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF payload IS NULL THEN
        RAISE EXCEPTION 'payload must be JSON; for none send null as JSON'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF octet_length(payload::text) > most THEN
        RAISE EXCEPTION 'the payload has % bytes and may have %; store it elsewhere and send its address',
            octet_length(payload::text), most USING ERRCODE = 'program_limit_exceeded';
    END IF;
    IF deadline <= run_at THEN
        RAISE EXCEPTION 'deadline must be later than run_at, or no attempt could ever begin'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    raw := convert_to(clinch_canonical(payload), 'UTF8');
    print := '\x01'::bytea || clinch_digest('clinch/fingerprint/1', raw);
    FOR byte IN SELECT get_byte(convert_to(biz_key, 'UTF8'), i)
        FROM generate_series(0, octet_length(biz_key) - 1) AS i
    LOOP
        fnv := ((fnv # byte) * 16777619) & 4294967295;
    END LOOP;
    key := int4send((CASE WHEN fnv > 2147483647 THEN fnv - 4294967296 ELSE fnv END)::integer)
        || substr(clinch_digest('clinch/keys/1', convert_to(domain, 'UTF8'),
            convert_to(event_type, 'UTF8'), convert_to(biz_key, 'UTF8'),
            convert_to(idem_key, 'UTF8')), 1, 20);
    IF ordered THEN
        lane := clinch_digest('clinch/lane/1', convert_to(domain, 'UTF8'),
            convert_to(biz_key, 'UTF8'));
        PERFORM pg_advisory_xact_lock(('x' || encode(substr(lane, 1, 8), 'hex'))::bit(64)::bigint);
    END IF;
    op_id := encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
        PLACING substr(int8send(at), 3) FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid;
    INSERT INTO clinch_key AS k (key, op_id, fingerprint) VALUES (key, op_id, print)
        ON CONFLICT DO NOTHING;
    is_new := FOUND;
    IF NOT is_new THEN
        SELECT k.op_id, k.fingerprint INTO op_id, known FROM clinch_key AS k WHERE k.key = key;
        IF known IS DISTINCT FROM print THEN
            RAISE EXCEPTION 'the same keys were accepted with another payload, as operation %', op_id
                USING ERRCODE = 'unique_violation';
        END IF;
        RETURN;
    END IF;
    SELECT s.id INTO stream_id FROM clinch_stream AS s JOIN clinch_domain AS d ON d.id = s.domain
        WHERE d.name = domain AND s.event_type = event_type AND s.rank = -priority;
    IF stream_id IS NULL THEN
        new_stream := true;
        INSERT INTO clinch_domain AS d (name) VALUES (domain) ON CONFLICT DO NOTHING;
        SELECT d.id INTO domain_id FROM clinch_domain AS d WHERE d.name = domain;
        INSERT INTO clinch_stream AS s (domain, event_type, rank)
            VALUES (domain_id, event_type, -priority) ON CONFLICT DO NOTHING;
        SELECT s.id INTO stream_id FROM clinch_stream AS s
            WHERE s.domain = domain_id AND s.event_type = event_type AND s.rank = -priority;
    END IF;
    -- A run_at in the past makes no row old.
    due := greatest(coalesce((extract(epoch FROM run_at) * 1000)::bigint, at), at);
    ends := (extract(epoch FROM deadline) * 1000)::bigint;
    extras := json_strip_nulls(json_build_object(
        'run_at', (extract(epoch FROM run_at) * 1000)::bigint, 'deadline', ends, 'trace', trace));
    is_head := lane IS NULL OR NOT EXISTS (SELECT FROM clinch_queue AS q WHERE q.lane = lane);
    INSERT INTO clinch_queue AS q (
        op_id, seq, accepted_at, next_attempt_at, deadline, version, stream, status, line, biz_key,
        idem_key, content_hash, state, ledger, payload, lane, extras, labels)
    VALUES (
        op_id, nextval('clinch_seq'), at, due, ends, 1, stream_id, 0,
        CASE WHEN is_head THEN 1 ELSE 0 END, biz_key, idem_key,
        '\x01'::bytea || clinch_digest('clinch/content/1', uuid_send(op_id),
            convert_to(event_type, 'UTF8'), raw),
        '\x010000000000', '\x00000f000001', raw, lane, nullif(extras::text, '{}'), labels);
    INSERT INTO clinch_delta AS c
        (domain, pending, live, recorded, waiting, held, completed, failed)
    SELECT s.domain, 1, 0, 0, 0, 0, 0, 0 FROM clinch_stream AS s WHERE s.id = stream_id;
    PERFORM pg_notify('clinch', 'sql ' || CASE WHEN new_stream THEN 't ' ELSE '' END
        || CASE WHEN ends IS NOT NULL THEN 'r ' ELSE '' END || 'd' || due || ':' || domain);
END $$;
