-- More IDs in one call, and other ways to one.

CREATE OR REPLACE FUNCTION ids.snowflake_nextval_tagged(tag integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    layout CONSTANT text := ids.snowflake_layout();
    f CONSTANT ids.snowflake_fields := ids.snowflake_fields(layout);
    bits bigint;
    id bigint;
BEGIN
    IF f.tag_bits = 0 THEN
        RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = 'the layout has no tag',
            DETAIL = format('The layout is %s.', f.text),
            HINT = 'Choose a layout with a field such as h8, or call snowflake_nextval().';
    END IF;
    bits := ids.snowflake_in_field('tag', tag::bigint, f.tag_bits, f.tag_shift, f);
    id := ids.snowflake_take(1::bigint);
    -- If the layout was set while this waited, once more.
    RETURN CASE WHEN ids.snowflake_layout() = layout THEN id | bits ELSE ids.snowflake_nextval_tagged(tag) END;
END
$$;
COMMENT ON FUNCTION ids.snowflake_nextval_tagged(integer) IS 'next Snowflake ID with a number from the application';

CREATE OR REPLACE FUNCTION ids.snowflake_nextvals(count integer) RETURNS SETOF bigint
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE ROWS 100 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    layout CONSTANT text := ids.snowflake_layout();
    f CONSTANT ids.snowflake_fields := ids.snowflake_fields(layout);
    mask CONSTANT bigint := ~(-1::bigint << f.sequence_bits);
    most CONSTANT integer := 1000000;
    last bigint;
    -- What all IDs of this database have.
    fixed bigint;
    position bigint;
BEGIN
    IF count NOT BETWEEN 1 AND most THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('count must be between 1 and %s', most),
            DETAIL = format('The count is %s.', count);
    END IF;
    last := ids.snowflake_take(count::bigint);
    -- mutant: hosted-layout-set
    IF ids.snowflake_layout() <> layout THEN
        -- It was set while this waited.
        RETURN QUERY SELECT ids.snowflake_nextvals(count);
        RETURN;
    END IF;
    fixed := last & ((1::bigint << f.timestamp_shift) - 1) & ~(mask << f.sequence_shift);
    position := ((last >> f.timestamp_shift) << f.sequence_bits) | ((last >> f.sequence_shift) & mask);
    RETURN QUERY SELECT fixed | ((p >> f.sequence_bits) << f.timestamp_shift) | ((p & mask) << f.sequence_shift)
        FROM generate_series(position - count + 1, position) p;
END
$$;
COMMENT ON FUNCTION ids.snowflake_nextvals(integer) IS 'next 1 to 1,000,000 Snowflake IDs, in ascending order';

CREATE OR REPLACE FUNCTION ids.snowflake_nextblock(count integer, OUT first bigint, OUT last bigint)
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    layout CONSTANT text := ids.snowflake_layout();
    f CONSTANT ids.snowflake_fields := ids.snowflake_fields(layout);
    most bigint := 1::bigint << f.sequence_bits;
    taken bigint;
BEGIN
    IF f.sequence_shift > 0 OR f.sequence_bits = 0 AND f.timestamp_shift > 0 THEN
        RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = 'IDs of this layout are not adjacent',
            DETAIL = format('The sequence is not the lowest field of "%s".', f.text),
            HINT = 'Use snowflake_nextvals(count).';
    ELSIF count NOT BETWEEN 1 AND most THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('count must be between 1 and %s', most),
            DETAIL = format('The count is %s, and a tick of the layout has %s IDs.', count, most),
            HINT = 'For more IDs, take more than one block, or use snowflake_nextvals(count).';
    END IF;
    -- Among so many there is a block that the end of a tick does not divide.
    taken := ids.snowflake_take(2::bigint * count - 1);
    IF ids.snowflake_layout() <> layout THEN
        -- It was set while this waited.
        SELECT * INTO first, last FROM ids.snowflake_nextblock(count);
        RETURN;
    END IF;
    last := taken;
    IF (taken & (most - 1)) < count - 1 THEN
        -- At the end of the tick before.
        last := ((taken & ~(most - 1)) - (1::bigint << f.timestamp_shift)) | (most - 1);
        PERFORM set_config('hosted_snowflake.block', taken || ' ' || last, false);
    END IF;
    first := last - count + 1;
END
$$;
COMMENT ON FUNCTION ids.snowflake_nextblock(integer) IS 'first and last of count adjacent Snowflake IDs of one tick';

CREATE OR REPLACE FUNCTION ids.snowflake_lastval() RETURNS bigint
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    taken bigint;
BEGIN
    taken := ids.snowflake_id_at(currval('ids.snowflake_position'::regclass), ids.snowflake_own_fields());
    -- Of a block, not all that was taken; none, if the position was moved before this session has taken one.
    IF current_setting('hosted_snowflake.block', true) = taken || ' ' THEN
        RAISE object_not_in_prerequisite_state;
    END IF;
    RETURN coalesce(substring(current_setting('hosted_snowflake.block', true)
        FROM '^' || taken || ' ([0-9]+)$')::bigint, taken);
EXCEPTION WHEN object_not_in_prerequisite_state THEN
    RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
        MESSAGE = 'snowflake_lastval is not yet defined in this session';
END
$$;
COMMENT ON FUNCTION ids.snowflake_lastval() IS 'last Snowflake ID issued to this session, without its tag';

CREATE OR REPLACE FUNCTION ids.snowflake_fill() RETURNS trigger
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    -- The text of a default is looked at.
    SET quote_all_identifiers = off AS $$
DECLARE
    is_missing boolean;
    its_default text;
    id bigint;
BEGIN
    IF TG_WHEN <> 'BEFORE' OR TG_LEVEL <> 'ROW' THEN
        RAISE EXCEPTION USING ERRCODE = 'trigger_protocol_violated',
            MESSAGE = 'function "snowflake_fill" must be fired BEFORE ROW';
    ELSIF TG_OP <> 'INSERT' THEN
        RAISE EXCEPTION USING ERRCODE = 'trigger_protocol_violated',
            MESSAGE = 'function "snowflake_fill" must be fired for INSERT';
    ELSIF TG_NARGS <> 1 THEN
        RAISE EXCEPTION USING ERRCODE = 'trigger_protocol_violated',
            MESSAGE = 'function "snowflake_fill" must be given the name of one column',
            DETAIL = format('Trigger "%s" gives it %s arguments.', TG_NAME, TG_NARGS),
            HINT = 'Create the trigger with EXECUTE FUNCTION snowflake_fill(''id''), where id is the column of the '
                'IDs.';
    ELSIF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = TG_RELID AND attname = TG_ARGV[0] AND attnum > 0
        AND NOT attisdropped) THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_column',
            MESSAGE = format('column "%s" of relation "%s" does not exist', TG_ARGV[0], TG_TABLE_NAME);
    END IF;
    IF pg_column_size(NEW) < 100000 THEN
        is_missing := to_jsonb(NEW) ->> TG_ARGV[0] IS NULL;
    ELSE
        -- A large value may be too large for JSON.
        EXECUTE format('SELECT ($1).%I IS NULL', TG_ARGV[0]) INTO is_missing USING NEW;
    END IF;
    IF is_missing THEN
        its_default := (SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid
            AND attnum = adnum
            WHERE adrelid = TG_RELID AND attname = TG_ARGV[0]);
        IF starts_with(its_default, 'ids.snowflake_nextval_for')
            OR starts_with(its_default, 'ids.snowflake_nextval_tagged') THEN
            -- It chooses the place or the tag of the ID.
            EXECUTE 'SELECT ' || its_default INTO id;
        ELSE
            id := ids.snowflake_take(1::bigint);
        END IF;
        NEW := jsonb_populate_record(NEW, jsonb_build_object(TG_ARGV[0], id));
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION ids.snowflake_fill() IS 'trigger BEFORE INSERT: gives a row an ID where the named column is NULL';
