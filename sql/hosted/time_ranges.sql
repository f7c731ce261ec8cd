-- Selecting by time, with an index on the ID; and IDs of given parts.

CREATE OR REPLACE FUNCTION ids.snowflake_refuse_time(at timestamptz, f ids.snowflake_fields) RETURNS void
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    last bigint := f.epoch + f.tick_ms * ~(-1::bigint << f.timestamp_bits);
    is_early boolean := at < ids.snowflake_at(f.epoch);
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'datetime_field_overflow',
        MESSAGE = format('timestamp is %s of the layout',
            CASE WHEN is_early THEN 'before the epoch' ELSE 'after the end' END),
        DETAIL = format('IDs of this layout have timestamps from %s to %s.', ids.snowflake_display_time(f.epoch),
            ids.snowflake_display_time(last)),
        HINT = 'snowflake_bound() and snowflake_within() take any time.';
END
$$;
COMMENT ON FUNCTION ids.snowflake_refuse_time(timestamptz, ids.snowflake_fields) IS
    'not to be called directly: the error for a time that a layout does not have';

CREATE OR REPLACE FUNCTION ids.snowflake_refuse_negative(f ids.snowflake_fields) RETURNS void
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'datetime_field_overflow',
        MESSAGE = 'timestamp is after the last bigint of the layout',
        DETAIL = format('IDs after %s are negative, and do not sort by time.',
            ids.snowflake_display_time(f.epoch + f.tick_ms * f.last_tick));
END
$$;
COMMENT ON FUNCTION ids.snowflake_refuse_negative(ids.snowflake_fields) IS
    'not to be called directly: the error for a time whose IDs are negative';

CREATE OR REPLACE FUNCTION ids.snowflake_must_sort(f ids.snowflake_fields) RETURNS void
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT f.sorts_by_time THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'IDs of this layout do not sort by time',
            DETAIL = format('The timestamp is not the highest field of "%s", so IDs would not sort by time.',
                split_part(f.text, ' unit', 1)),
            HINT = 'Compare snowflake_timestamp(id, layout) instead.';
    END IF;
END
$$;
COMMENT ON FUNCTION ids.snowflake_must_sort(ids.snowflake_fields) IS
    'not to be called directly: the error for a layout whose IDs do not sort by time';

CREATE OR REPLACE FUNCTION ids.snowflake_min_id(at timestamptz, layout text) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f ids.snowflake_fields := ids.snowflake_fields(layout);
    tick bigint;
BEGIN
    PERFORM ids.snowflake_must_sort(f);
    IF isfinite(at) THEN
        tick := floor((floor(extract(epoch FROM at) * 1000) - f.epoch) / f.tick_ms);
    END IF;
    IF tick BETWEEN 0 AND f.last_tick THEN
        RETURN tick << f.timestamp_shift;
    ELSIF tick > 0 AND tick <= ~(-1::bigint << f.timestamp_bits) THEN
        PERFORM ids.snowflake_refuse_negative(f);
    END IF;
    PERFORM ids.snowflake_refuse_time(at, f);
END
$$;
COMMENT ON FUNCTION ids.snowflake_min_id(timestamptz, text) IS 'lowest ID of the tick of a time in this layout';

CREATE OR REPLACE FUNCTION ids.snowflake_min_id(at timestamptz) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN ids.snowflake_min_id(at, ids.snowflake_layout());
COMMENT ON FUNCTION ids.snowflake_min_id(timestamptz) IS 'lowest ID of the tick of a time';

CREATE OR REPLACE FUNCTION ids.snowflake_bound(at timestamptz, operator text, layout text) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f ids.snowflake_fields := ids.snowflake_fields(layout);
    -- The numbers that a time of this layout can have. Of 64 bits, those with the highest bit set do not sort.
    lowest bigint := CASE f.least_id WHEN 0 THEN -9223372036854775808 ELSE 0 END;
    tick_us bigint := f.tick_ms * 1000;
    since_epoch numeric;
    id numeric := CASE at WHEN 'infinity' THEN f.greatest_id::numeric + 1 ELSE lowest END;
BEGIN
    PERFORM ids.snowflake_must_sort(f);
    IF operator NOT IN ('>=', '>', '<=', '<') THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('unrecognized operator: "%s"', operator),
            HINT = 'Operators are >=, >, <= and <.';
    ELSIF isfinite(at) THEN
        since_epoch := extract(epoch FROM at) * 1000000 - f.epoch::numeric * 1000;
        IF f.least_id < 0 AND since_epoch >= (f.last_tick::numeric + 1) * tick_us THEN
            PERFORM ids.snowflake_refuse_negative(f);
        END IF;
        since_epoch := since_epoch + (operator IN ('>', '<='))::integer;
        id := (div(since_epoch, tick_us) + (mod(since_epoch, tick_us) > 0)::integer)
            * trunc(2::numeric ^ f.timestamp_shift);
        id := greatest(lowest, least(id, f.greatest_id::numeric + 1));
    END IF;
    id := id - (operator IN ('<=', '<'))::integer;
    RETURN CASE WHEN id BETWEEN lowest AND f.greatest_id THEN id END;
END
$$;
COMMENT ON FUNCTION ids.snowflake_bound(timestamptz, text, text) IS
    'lowest ID of this layout whose time is >= or > a time, or greatest one whose time is <= or <; NULL if there is '
    'none';

CREATE OR REPLACE FUNCTION ids.snowflake_bound(at timestamptz, operator text) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN ids.snowflake_bound(at, operator, ids.snowflake_layout());
COMMENT ON FUNCTION ids.snowflake_bound(timestamptz, text) IS
    'lowest ID whose time is >= or > a time, or greatest one whose time is <= or <; NULL if there is none';

CREATE OR REPLACE FUNCTION ids.snowflake_within(id bigint, since timestamptz, until timestamptz, layout text)
    RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN id >= ids.snowflake_bound(since, '>='::text, layout) AND id <= ids.snowflake_bound(until, '<'::text, layout);
COMMENT ON FUNCTION ids.snowflake_within(bigint, timestamptz, timestamptz, text) IS
    'whether the time of an ID of this layout is since or later, and before until';

CREATE OR REPLACE FUNCTION ids.snowflake_within(id bigint, since timestamptz,
    until timestamptz DEFAULT 'infinity'::timestamptz) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN id >= ids.snowflake_bound(since, '>='::text, ids.snowflake_layout())
        AND id <= ids.snowflake_bound(until, '<'::text, ids.snowflake_layout());
COMMENT ON FUNCTION ids.snowflake_within(bigint, timestamptz, timestamptz) IS
    'whether the time of an ID is since or later, and before until; uses an index on the ID';

-- A number, shifted to its field of an ID.
CREATE OR REPLACE FUNCTION ids.snowflake_in_field(name text, value bigint, bits integer, shift integer,
    f ids.snowflake_fields) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF value NOT BETWEEN 0 AND ~(-1::bigint << bits) THEN
        RAISE EXCEPTION USING ERRCODE = 'numeric_value_out_of_range',
            MESSAGE = format('%s does not fit the layout', name),
            DETAIL = format('%s is %s, and layout %s %s.', name, value, f.text,
                CASE bits WHEN 0 THEN 'has no such field' ELSE format('allows 0 to %s', ~(-1::bigint << bits)) END);
    END IF;
    RETURN value << shift;
END
$$;
COMMENT ON FUNCTION ids.snowflake_in_field(text, bigint, integer, integer, ids.snowflake_fields) IS
    'not to be called directly: a number, shifted to its field of an ID';

-- Not STRICT: decoding gives NULL for a field that the layout does not have, and composing takes it back.
CREATE OR REPLACE FUNCTION ids.snowflake_compose(
        issued_at timestamptz, datacenter_id integer, worker_id integer, sequence integer, tag integer, layout text)
            RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f ids.snowflake_fields := ids.snowflake_fields(layout);
    tick bigint;
    id bigint;
BEGIN
    IF issued_at IS NULL OR layout IS NULL OR datacenter_id IS NULL AND f.datacenter_bits > 0
        OR worker_id IS NULL AND f.worker_bits > 0
        OR sequence IS NULL AND f.sequence_bits > 0 THEN
        RETURN NULL;
    END IF;
    IF NOT isfinite(issued_at) OR issued_at < '1970-01-01Z' THEN
        PERFORM ids.snowflake_refuse_time(issued_at, f);
    END IF;
    id := ids.snowflake_in_field('tag', coalesce(tag, 0)::bigint, f.tag_bits, f.tag_shift, f);
    tick := floor((floor(extract(epoch FROM issued_at) * 1000) - f.epoch) / f.tick_ms);
    IF tick NOT BETWEEN 0 AND ~(-1::bigint << f.timestamp_bits) THEN
        PERFORM ids.snowflake_refuse_time(issued_at, f);
    END IF;
    id := id | (tick << f.timestamp_shift)
        | ids.snowflake_in_field('datacenter_id', coalesce(datacenter_id, 0)::bigint, f.datacenter_bits,
            f.datacenter_shift, f)
        | ids.snowflake_in_field('worker_id', coalesce(worker_id, 0)::bigint, f.worker_bits, f.worker_shift, f)
        | ids.snowflake_in_field('sequence', coalesce(sequence, 0)::bigint, f.sequence_bits, f.sequence_shift, f);
    RETURN id;
END
$$;
COMMENT ON FUNCTION ids.snowflake_compose(timestamptz, integer, integer, integer, integer, text) IS
    'ID of this layout with these fields';

-- now(): see snowflake_timestamp(id).
CREATE OR REPLACE FUNCTION ids.snowflake_compose(
        issued_at timestamptz, datacenter_id integer, worker_id integer, sequence integer, tag integer DEFAULT 0)
            RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE WHEN now() IS NOT NULL
        THEN ids.snowflake_compose(issued_at, datacenter_id, worker_id, sequence, tag, ids.snowflake_layout()) END;
COMMENT ON FUNCTION ids.snowflake_compose(timestamptz, integer, integer, integer, integer) IS
    'ID with these fields; NULL or 0 for a field that the layout lacks, and for no tag';

CREATE OR REPLACE FUNCTION ids.snowflake_explain(id bigint, layout text) RETURNS text
    LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f ids.snowflake_fields := ids.snowflake_fields(layout);
    drawn text := '';
    letters text := '';
    meanings text := '';
    field record;
    value bigint;
BEGIN
    PERFORM ids.snowflake_timestamp(id, layout);
    FOR field IN
        SELECT * FROM (VALUES ('t', 'timestamp', f.timestamp_bits, f.timestamp_shift),
            ('d', 'data center', f.datacenter_bits, f.datacenter_shift),
            ('w', 'worker', f.worker_bits, f.worker_shift), ('h', 'tag', f.tag_bits, f.tag_shift),
            ('s', 'sequence', f.sequence_bits, f.sequence_shift),
            ('-', NULL, 64 - (SELECT sum(b)
                FROM unnest(ARRAY[f.timestamp_bits, f.datacenter_bits, f.worker_bits, f.tag_bits,
                    f.sequence_bits]) b)::integer, 64))
            fields(letter, name, bits, shift)
        WHERE bits > 0 ORDER BY shift DESC
    LOOP
        value := CASE WHEN field.letter = '-' THEN 0 ELSE (id >> field.shift) & ~(-1::bigint << field.bits) END;
        drawn := concat_ws(' ', nullif(drawn, ''), right(value::bit(64)::text, field.bits));
        letters := concat_ws(' ', nullif(letters, ''), repeat(field.letter, field.bits));
        meanings := meanings || CASE field.letter
            WHEN '-' THEN ''
            WHEN 't' THEN format(E'\nt timestamp    %s ticks of %s after %s\n%s= %s', value,
                ids.snowflake_display_unit(f.tick_ms),
                ids.snowflake_display_time(f.epoch), repeat(' ', 15),
                ids.snowflake_display_time(f.epoch + f.tick_ms * value))
            ELSE format(E'\n%s %s %s of 0 to %s%s', field.letter, rpad(field.name, 12), value,
                ~(-1::bigint << field.bits),
                CASE field.letter WHEN 's' THEN ' in this tick' END) END;
    END LOOP;
    RETURN drawn || E'\n' || letters || meanings;
END
$$;
COMMENT ON FUNCTION ids.snowflake_explain(bigint, text) IS 'bits of an ID of this layout, grouped by field';

-- now(): see snowflake_timestamp(id).
CREATE OR REPLACE FUNCTION ids.snowflake_explain(id bigint) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE WHEN now() IS NOT NULL THEN ids.snowflake_explain(id, ids.snowflake_layout()) END;
COMMENT ON FUNCTION ids.snowflake_explain(bigint) IS 'bits of an ID, grouped by field';
