-- Rates and pauses of destinations, one for all nodes. Times are microseconds, on the server's
-- clock.
CREATE FUNCTION clinch_now_us() RETURNS bigint LANGUAGE sql VOLATILE
AS 'SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint';

CREATE TABLE clinch_rate (
    destination text COLLATE "C" PRIMARY KEY,
    -- When the next call is due by even spacing.
    arrival bigint NOT NULL,
    paused_until bigint NOT NULL,
    -- Calls that were given out.
    given bigint NOT NULL
) WITH (fillfactor = 50);

-- The moments of the last calls: one comes where the one of a whole rate ago was.
CREATE TABLE clinch_rate_moment (
    destination text COLLATE "C" NOT NULL,
    slot integer NOT NULL,
    number bigint NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (destination, slot)
) WITH (fillfactor = 50);

-- Reserves one call: spaced by the rate after its burst, and never more than `permits` in any
-- stretch of `per`. `value` is how many are left at once, or of a refusal 1 if it is a pause.
CREATE FUNCTION clinch_rate_reserve(
    of_destination text, permits integer, per bigint, burst integer, wait_max bigint,
    OUT is_granted boolean, OUT wait bigint, OUT value bigint
) LANGUAGE plpgsql AS $$
DECLARE
    rate clinch_rate;
    now_us bigint;
    spacing bigint := (per + permits - 1) / permits;
    tolerance bigint := spacing * (burst - 1);
    spaced bigint;
    pause bigint;
    of_slot integer;
    before bigint;
BEGIN
    -- A crash of the server may forget the last calls of a moment; a sync for each would make
    -- every call of a destination wait for the disk.
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT * INTO rate FROM clinch_rate WHERE destination = of_destination FOR UPDATE;
    IF NOT FOUND THEN
        INSERT INTO clinch_rate VALUES (of_destination, 0, 0, 0) ON CONFLICT DO NOTHING;
        SELECT * INTO rate FROM clinch_rate WHERE destination = of_destination FOR UPDATE;
    END IF;
    now_us := clinch_now_us();
    spaced := greatest(0, rate.arrival - tolerance - now_us);
    pause := greatest(0, rate.paused_until - now_us);
    of_slot := rate.given % permits;
    SELECT at INTO before FROM clinch_rate_moment
    WHERE destination = of_destination AND slot = of_slot AND number = rate.given - permits;
    wait := greatest(spaced, pause, coalesce(before + per - now_us, 0));
    is_granted := wait <= wait_max;
    IF NOT is_granted THEN
        wait := greatest(wait - wait_max, pause);
        value := (pause > 0)::integer;
        RETURN;
    END IF;
    rate.arrival := spacing
        + greatest(rate.arrival, now_us + CASE WHEN wait > spaced THEN wait ELSE 0 END);
    UPDATE clinch_rate SET arrival = rate.arrival, given = rate.given + 1
    WHERE destination = of_destination;
    INSERT INTO clinch_rate_moment VALUES (of_destination, of_slot, rate.given, now_us + wait)
    ON CONFLICT (destination, slot) DO UPDATE SET number = excluded.number, at = excluded.at;
    value := greatest(0, now_us + tolerance + spacing - greatest(rate.arrival, now_us)) / spacing;
END $$;

-- The provider asked everyone to stay away: tells every node. A shorter pause does not end a
-- longer one; at its end the burst is spent. With no time it only says what is left.
CREATE FUNCTION clinch_rate_pause(of_destination text, lasting bigint, tolerance bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    now_us bigint := clinch_now_us();
    until bigint := now_us + lasting;
BEGIN
    IF lasting <= 0 THEN
        SELECT paused_until INTO until FROM clinch_rate WHERE destination = of_destination;
        RETURN greatest(0, coalesce(until - now_us, 0));
    END IF;
    INSERT INTO clinch_rate AS r VALUES (of_destination, until + tolerance, until, 0)
    ON CONFLICT (destination) DO UPDATE SET
        arrival = greatest(r.arrival, excluded.arrival, r.paused_until + tolerance),
        paused_until = greatest(r.paused_until, excluded.paused_until)
    RETURNING r.paused_until INTO until;
    PERFORM pg_notify('clinch_pause', (until - now_us) || ' ' || of_destination);
    RETURN until - now_us;
END $$;
