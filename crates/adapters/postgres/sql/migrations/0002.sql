-- Accepting from any language, in the caller's own transaction. Everything here says the same
-- as the adapter does in Rust: the canonical form of the payload (RFC 8785), the hashes, and
-- who is in line.

-- A list of fields as it is hashed: each behind its length.
CREATE FUNCTION clinch_digest(VARIADIC fields bytea[]) RETURNS bytea
LANGUAGE sql IMMUTABLE AS $$
    SELECT sha256(string_agg(int8send(length(f)::bigint) || f, ''::bytea ORDER BY n))
    FROM unnest(fields) WITH ORDINALITY AS t (f, n)
$$;

-- A number in the one spelling of ECMAScript.
CREATE FUNCTION clinch_number(spelled text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    part text[]; digits text; n integer; k integer; sign text;
BEGIN
    IF spelled ~ '^-?[0-9]+$' THEN
        IF abs(spelled::numeric) > 9007199254740991 THEN
            RAISE EXCEPTION 'the payload has an integer outside ±(2^53 - 1); send it as a string'
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
        RETURN CASE WHEN spelled::numeric = 0 THEN '0' ELSE spelled::numeric::text END;
    END IF;
    IF abs(spelled::double precision) > 9007199254740991
        AND abs(spelled::double precision) < 1e21 THEN
        RAISE EXCEPTION 'the payload has an integer outside ±(2^53 - 1); send it as a string'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    part := regexp_match(spelled::double precision::text,
        '^(-?)([0-9]+)(?:\.([0-9]+))?(?:e([+-][0-9]+))?$');
    IF part IS NULL THEN
        RAISE EXCEPTION 'the payload has a number that is too large for a double'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    sign := part[1];
    digits := part[2] || coalesce(part[3], '');
    n := length(part[2]) + coalesce(part[4], '0')::integer;
    n := n - (length(digits) - length(ltrim(digits, '0')));
    digits := rtrim(ltrim(digits, '0'), '0');
    k := length(digits);
    IF k = 0 THEN
        RETURN '0';
    ELSIF k <= n AND n <= 21 THEN
        RETURN sign || digits || repeat('0', n - k);
    ELSIF 0 < n AND n <= 21 THEN
        RETURN sign || left(digits, n) || '.' || substr(digits, n + 1);
    ELSIF -6 < n AND n <= 0 THEN
        RETURN sign || '0.' || repeat('0', -n) || digits;
    END IF;
    RETURN sign || left(digits, 1) || CASE WHEN k > 1 THEN '.' || substr(digits, 2) ELSE '' END
        || 'e' || CASE WHEN n > 0 THEN '+' ELSE '-' END || abs(n - 1);
END $$;

-- A member's name as its order says it: by UTF-16 code units.
CREATE FUNCTION clinch_member_order(name text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(string_agg(CASE WHEN c < 65536 THEN lpad(to_hex(c), 4, '0')
        ELSE to_hex(55296 + ((c - 65536) >> 10)) || to_hex(56320 + ((c - 65536) & 1023)) END,
        '' ORDER BY n), '')
    FROM (SELECT ascii(ch) AS c, n FROM regexp_split_to_table(name, '') WITH ORDINALITY
        AS t (ch, n) WHERE ch <> '') AS chars
$$;

-- The one form of a JSON value. Refuses what two readers could understand differently.
CREATE FUNCTION clinch_canonical(value json, depth integer DEFAULT 0) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    form text; names integer; members integer;
BEGIN
    IF depth > 128 THEN
        RAISE EXCEPTION 'the payload is nested deeper than 128'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    CASE json_typeof(value)
    WHEN 'object' THEN
        SELECT count(*), count(DISTINCT m.key COLLATE "C"),
            string_agg(to_json(m.key)::text || ':' || clinch_canonical(m.value, depth + 1), ','
                ORDER BY clinch_member_order(m.key) COLLATE "C")
        INTO members, names, form FROM json_each(value) AS m;
        IF EXISTS (SELECT FROM json_object_keys(value) AS k
            WHERE starts_with(k, '$serde_json::private::')) THEN
            RAISE EXCEPTION 'the payload has a member name that is reserved'
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
        IF members <> names THEN
            RAISE EXCEPTION 'the payload has an object that names a member twice'
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
        RETURN '{' || coalesce(form, '') || '}';
    WHEN 'array' THEN
        SELECT string_agg(clinch_canonical(e.value, depth + 1), ',' ORDER BY e.n)
        INTO form FROM json_array_elements(value) WITH ORDINALITY AS e (value, n);
        RETURN '[' || coalesce(form, '') || ']';
    WHEN 'string' THEN
        RETURN to_json(value #>> '{}')::text;
    WHEN 'number' THEN
        RETURN clinch_number(btrim(value::text, E' \t\n\r'));
    WHEN 'null' THEN
        RETURN 'null';
    ELSE
        RETURN value #>> '{}';
    END CASE;
END $$;

-- A key as Rust takes it: what it would refuse to read must not be written.
CREATE FUNCTION clinch_check_text(field text, value text, bytes_max integer) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF value IS NULL OR value = '' OR octet_length(convert_to(value, 'UTF8')) > bytes_max
        OR value ~ '[\u0001-\u001f\u007f-\u009f]'
        OR value ~ '^[ \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]'
        OR value ~ '[ \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]$' THEN
        RAISE EXCEPTION '% must have 1 to % bytes, no control characters, and no white space at '
            'either end', field, bytes_max USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;

-- The same of a name that becomes part of topics and metrics.
CREATE FUNCTION clinch_check_name(field text, value text) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF value IS NULL OR value !~ '^[A-Za-z0-9._:-]{1,128}$' THEN
        RAISE EXCEPTION '% must have 1 to 128 letters, digits, ".", "_", "-" or ":"', field
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;

-- The same of labels: an object of texts.
CREATE FUNCTION clinch_check_labels(labels jsonb) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF jsonb_typeof(labels) <> 'object' OR (SELECT count(*) FROM jsonb_object_keys(labels)) > 16
        OR EXISTS (SELECT FROM jsonb_each(labels) AS l
            WHERE l.key = '' OR jsonb_typeof(l.value) <> 'string'
                OR octet_length(l.key) > 128 OR octet_length(l.value #>> '{}') > 128
                OR l.key ~ '[\u0001-\u001f\u007f-\u009f]'
                OR l.value #>> '{}' ~ '[\u0001-\u001f\u007f-\u009f]') THEN
        RAISE EXCEPTION 'labels must be an object of at most 16 texts, with names and values of '
            'at most 128 bytes and no control characters'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;

-- Takes an operation in, in the transaction of whoever calls: rolled back, nothing of it was;
-- committed, workers are woken. Answers its id, and whether it was new. The same keys with
-- another payload are an error. `ordered` must say what the route says (order = "key"), and a
-- deadline of the route does not apply.
CREATE FUNCTION clinch_accept(
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
    due := coalesce((extract(epoch FROM run_at) * 1000)::bigint, at);
    ends := (extract(epoch FROM deadline) * 1000)::bigint;
    extras := json_strip_nulls(json_build_object(
        'run_at', CASE WHEN run_at IS NOT NULL THEN due END, 'deadline', ends, 'trace', trace));
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
