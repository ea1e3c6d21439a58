-- Fails where a statement would leave out a row that all others of its transaction count on:
-- another call took the same keys at the same moment. Whoever sent it looks again.
CREATE FUNCTION clinch_require(is_whole boolean) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF NOT is_whole THEN
        RAISE EXCEPTION 'another call took the same keys or rows' USING ERRCODE = '40001';
    END IF;
    RETURN true;
END $$;
