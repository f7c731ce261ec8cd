-- Decoding an ID. The planner inlines most functions: what depends only on the layout becomes a constant.

CREATE OR REPLACE FUNCTION ids.snowflake_must_not_be_negative(id bigint) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF id < 0 THEN
        RAISE EXCEPTION USING ERRCODE = 'numeric_value_out_of_range', MESSAGE = 'Snowflake ID must not be negative',
            DETAIL = format('The value is %s.', id);
    END IF;
    RETURN id;
END
$$;
COMMENT ON FUNCTION ids.snowflake_must_not_be_negative(bigint) IS
    'not to be called directly: the error for a negative ID';

CREATE OR REPLACE FUNCTION ids.snowflake_time_of(id bigint, f ids.snowflake_fields) RETURNS timestamptz
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF id < f.least_id THEN
        PERFORM ids.snowflake_must_not_be_negative(id);
    ELSIF id > f.greatest_id THEN
        RAISE EXCEPTION USING ERRCODE = 'numeric_value_out_of_range', MESSAGE = 'the ID does not fit the layout',
            DETAIL = format('The ID is %s, and the greatest ID of layout %s is %s.', id, f.text, f.greatest_id);
    END IF;
    RETURN ids.snowflake_at(f.epoch + f.tick_ms * ((id >> f.timestamp_shift) & ~(-1::bigint << f.timestamp_bits)));
END
$$;
COMMENT ON FUNCTION ids.snowflake_time_of(bigint, ids.snowflake_fields) IS
    'not to be called directly: when an ID was issued';

CREATE OR REPLACE FUNCTION ids.snowflake_timestamp(id bigint, layout text) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN ids.snowflake_time_of(id, ids.snowflake_fields(layout));
COMMENT ON FUNCTION ids.snowflake_timestamp(bigint, text) IS 'when an ID of this layout was issued';

-- now() keeps the planner from taking a form without a layout for IMMUTABLE, so that an index or a generated column
-- must name a layout, as with the extension.
CREATE OR REPLACE FUNCTION ids.snowflake_timestamp(id bigint) RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE WHEN now() IS NOT NULL THEN ids.snowflake_timestamp(id, ids.snowflake_layout()) END;
COMMENT ON FUNCTION ids.snowflake_timestamp(bigint) IS 'when an ID was issued: the start of its tick';

CREATE OR REPLACE FUNCTION ids.snowflake_unpack(
        id bigint, f ids.snowflake_fields,
        OUT issued_at timestamptz, OUT datacenter_id integer, OUT worker_id integer, OUT sequence integer,
        OUT tag integer)
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    issued_at := ids.snowflake_time_of(id, f);
    datacenter_id := CASE WHEN f.datacenter_bits > 0
        THEN (id >> f.datacenter_shift) & ~(-1::bigint << f.datacenter_bits) END;
    worker_id := CASE WHEN f.worker_bits > 0 THEN (id >> f.worker_shift) & ~(-1::bigint << f.worker_bits) END;
    sequence := CASE WHEN f.sequence_bits > 0 THEN (id >> f.sequence_shift) & ~(-1::bigint << f.sequence_bits) END;
    tag := CASE WHEN f.tag_bits > 0 THEN (id >> f.tag_shift) & ~(-1::bigint << f.tag_bits) END;
END
$$;
COMMENT ON FUNCTION ids.snowflake_unpack(bigint, ids.snowflake_fields) IS
    'not to be called directly: the fields of an ID';

CREATE OR REPLACE FUNCTION ids.snowflake_decode(
        id bigint, layout text,
        OUT issued_at timestamptz, OUT datacenter_id integer, OUT worker_id integer, OUT sequence integer,
        OUT tag integer)
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN ids.snowflake_unpack(id, ids.snowflake_fields(layout));
COMMENT ON FUNCTION ids.snowflake_decode(bigint, text) IS 'fields of an ID of this layout';

CREATE OR REPLACE FUNCTION ids.snowflake_decode(
        id bigint, OUT issued_at timestamptz, OUT datacenter_id integer, OUT worker_id integer, OUT sequence integer,
        OUT tag integer)
    LANGUAGE sql STABLE STRICT PARALLEL SAFE
    RETURN ids.snowflake_unpack(id, ids.snowflake_own_fields());
COMMENT ON FUNCTION ids.snowflake_decode(bigint) IS 'fields of an ID; NULL for a field that the layout lacks';

-- Equal times are in the order of snowflake_layouts.
CREATE OR REPLACE FUNCTION ids.snowflake_decode_all(
        id bigint, OUT layout text, OUT issued_at timestamptz, OUT datacenter_id integer, OUT worker_id integer,
        OUT sequence integer, OUT tag integer)
    RETURNS SETOF record LANGUAGE sql STABLE STRICT PARALLEL SAFE ROWS 10
    BEGIN ATOMIC
        SELECT name, d.* FROM (SELECT row_number() OVER () AS place, name, ids.snowflake_fields(name) AS f
            FROM ids.snowflake_layouts) layouts
            CROSS JOIN LATERAL ids.snowflake_decode(CASE WHEN id BETWEEN (f).least_id AND (f).greatest_id THEN id END,
                name) d
            WHERE d.issued_at <= clock_timestamp() + interval '1 day'
            ORDER BY d.issued_at DESC, place;
    END;
COMMENT ON FUNCTION ids.snowflake_decode_all(bigint) IS
    'fields of an ID of unknown origin under each named layout that it fits, the latest time first, without times more '
    'than a day ahead';
