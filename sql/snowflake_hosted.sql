-- snowflake_pg in plain SQL: Snowflake IDs on PostgreSQL 15 or later without an extension, for hosted databases.
--
-- Run it as the owner of the database, once for each database, and again to upgrade: psql -1 -d app -f snowflake_hosted.sql
-- It makes functions, sequences, views and a table in the current schema, which may be one of their own. Then, once:
--
--     SELECT snowflake_set_worker_id(7);  -- 0 to 1023; no other database and no other server has it
--
-- The functions have the names, the layouts and the results of the extension's. docs/hosted.md says what differs.

-- The text below is run with search_path = pg_catalog, and so are its functions. The schema is put before each name that begins with
-- snowflake_, also in messages.

DO $install$
DECLARE
    schema text := pg_catalog.quote_ident(pg_catalog.current_schema()::pg_catalog.text);
    before text := pg_catalog.current_setting('search_path');
    messages text := pg_catalog.current_setting('client_min_messages');
    strings text := pg_catalog.current_setting('standard_conforming_strings');
    installer oid := (SELECT oid FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) current_user);
    unsafe record;
    script text := $script$

DO $$
BEGIN
    IF to_regtype('snowflake_fields') IS NULL THEN
        CREATE TYPE snowflake_fields AS (
            tick_ms bigint, epoch bigint, timestamp_bits integer, timestamp_shift integer, datacenter_bits integer, datacenter_shift integer,
            worker_bits integer, worker_shift integer, tag_bits integer, tag_shift integer, sequence_bits integer, sequence_shift integer,
            least_id bigint, greatest_id bigint, last_tick bigint, issues_until bigint, sorts_by_time boolean, text text);
    END IF;
END
$$;
COMMENT ON TYPE snowflake_fields IS 'not to be used: where the fields of a layout are';

-- Layouts --------------------------------------------------------------------------------------------------------------

-- Those that have a name. One never changes, since indexes and generated columns name it.
CREATE OR REPLACE FUNCTION snowflake_preset(name text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE lower(name COLLATE "C")
        WHEN 'flat' THEN 't41 w10 s12 unit=1ms epoch=1288834974657'
        WHEN 'twitter' THEN 't41 d5 w5 s12 unit=1ms epoch=1288834974657'
        WHEN 'leaf' THEN 't41 w10 s12 unit=1ms epoch=1288834974657'
        WHEN 'uid' THEN 't28 w22 s13 unit=1000ms epoch=1463673600000'
        WHEN 'k8s' THEN 't28 w24 s11 unit=1000ms epoch=1631780048000'
        WHEN 'game' THEN 't31 w20 s12 unit=1000ms epoch=1704067200000'
        WHEN 'js' THEN 't41 w6 s6 unit=1ms epoch=1704067200000'
        WHEN 'pgedge' THEN 't41 w10 s12 unit=1ms epoch=1672531200000'
        WHEN 'pgactive' THEN 't40 w10 s14 unit=1ms epoch=1475796139634'
        WHEN 'pgdog' THEN 't41 w10 s12 unit=1ms epoch=1764184395000'
        WHEN 'pgdog_compact' THEN 't41 w6 s6 unit=1ms epoch=1764184395000'
        WHEN 'clickhouse' THEN 't41 w10 s12 unit=1ms epoch=0'
        WHEN 'tsid' THEN 't42 w10 s12 unit=1ms epoch=1577836800000'
        WHEN 'sonyflake' THEN 't39 s8 w16 unit=10ms epoch=1409529600000'
        WHEN 'instagram' THEN 't41 w13 s10 unit=1ms epoch=1314220021721'
        WHEN 'discord' THEN 't42 d5 w5 s12 unit=1ms epoch=1420070400000'
        WHEN 'mastodon' THEN 't48 s16 unit=1ms epoch=0' END;
COMMENT ON FUNCTION snowflake_preset(text) IS 'not to be called: use the view snowflake_layouts';

-- A time of Unix milliseconds. Exact: a product of an interval is rounded to 53 bits, and both of these have fewer.
CREATE OR REPLACE FUNCTION snowflake_at(ms bigint) RETURNS timestamptz
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path FROM CURRENT AS $$
BEGIN
    RETURN ('1970-01-01'::timestamp + interval '1 hour' * (ms / 3600000)::float8 + interval '1 millisecond' * (ms % 3600000)::float8) AT TIME ZONE 'UTC';
END
$$;
COMMENT ON FUNCTION snowflake_at(bigint) IS 'not to be called: a time of Unix milliseconds';

-- A time as messages show it.
CREATE OR REPLACE FUNCTION snowflake_display_time(ms bigint) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN CASE WHEN ms > 253402207200999 THEN ms || ' ms after 1970' ELSE
        to_char('1970-01-01'::timestamp + interval '1 hour' * (ms / 3600000)::float8 + interval '1 millisecond' * (ms % 3600000)::float8,
            CASE WHEN ms % 1000 = 0 THEN 'YYYY-MM-DD"T"HH24:MI:SS"Z"' WHEN ms % 100 = 0 THEN 'YYYY-MM-DD"T"HH24:MI:SS.FF1"Z"'
                WHEN ms % 10 = 0 THEN 'YYYY-MM-DD"T"HH24:MI:SS.FF2"Z"' ELSE 'YYYY-MM-DD"T"HH24:MI:SS.FF3"Z"' END) END;
COMMENT ON FUNCTION snowflake_display_time(bigint) IS 'not to be called: a time in messages';

-- Where the fields of a layout are. IMMUTABLE: with a constant, the planner calls it once.
CREATE OR REPLACE FUNCTION snowflake_fields(layout text) RETURNS snowflake_fields
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path FROM CURRENT AS $$
DECLARE
    found snowflake_fields;
    tokens text[] := array_remove(regexp_split_to_array(layout, E'[ \t\n\f\r]+'), '');
    preset text := snowflake_preset(tokens[1]);
    token text;
    fields text[] := '{}';
    letter text;
    bits integer;
    most integer;
    sum integer := 0;
    unit text;
    epoch text;
    parts text[];
    local timestamp;
    reason text;
BEGIN
    IF preset IS NOT NULL THEN
        tokens := tokens[2:];
    END IF;
    FOREACH token IN ARRAY tokens LOOP
        letter := lower(left(token, 1) COLLATE "C");
        most := CASE WHEN letter = 't' THEN 63 ELSE 31 END;
        IF token ~* '^unit=' THEN
            reason := coalesce(reason, CASE
                WHEN unit IS NOT NULL THEN format('"%s" sets the unit a second time', token)
                WHEN token !~* '^unit=[0-9]{1,9}(ms|s)$' OR substring(token FROM '[0-9]+')::bigint * CASE WHEN token ~* '[0-9]s$' THEN 1000 ELSE 1 END NOT BETWEEN 1 AND 1000
                    THEN format('"%s" is not a unit: write whole milliseconds from unit=1ms to unit=1000ms, or unit=1s', token) END);
            unit := substr(token, 6);
        ELSIF token ~* '^epoch=' THEN
            IF epoch IS NOT NULL THEN
                reason := coalesce(reason, format('"%s" sets the epoch a second time', token));
            END IF;
            epoch := substr(token, 7);
            -- Checked before they are cast: a subtransaction is refused in parallel queries. (No letter after a colon: tools take that for a
            -- parameter.)
            parts := regexp_match(epoch, '^([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2})(?::([0-9]{2})([.][0-9]{1,3}0*)?)?(Z|([+-])([0-9]{2})(?::?([0-9]{2}))?)$', 'i');
            found.epoch := -1;
            IF epoch ~ '^0*[0-9]{1,15}$' THEN
                found.epoch := epoch::numeric;
                -- The end of the calendar of the extension.
                IF found.epoch > 253402207200000 THEN
                    found.epoch := -1;
                END IF;
            ELSIF parts[1] BETWEEN '1969' AND '9999' AND parts[2] BETWEEN '01' AND '12' AND parts[4] <= '23' AND parts[5] <= '59'
                AND coalesce(parts[6], '0') <= '60' AND coalesce(parts[10], '0') <= '25' AND coalesce(parts[11], '0') <= '59' THEN
                local := make_timestamp(parts[1]::integer, parts[2]::integer, 1, parts[4]::integer, parts[5]::integer, 0);
                IF parts[3]::integer BETWEEN 1 AND extract(day FROM local + interval '1 month' - interval '1 day') THEN
                    -- A leap second is the one before.
                    found.epoch := 1000 * (extract(epoch FROM local) + 86400 * (parts[3]::integer - 1) + (least(coalesce(parts[6], '0'), '59') || coalesce(parts[7], ''))::numeric
                        - (coalesce(parts[9], '') || 1)::integer * (3600 * coalesce(parts[10], '0')::integer + 60 * coalesce(parts[11], '0')::integer));
                END IF;
            END IF;
            IF found.epoch NOT BETWEEN 0 AND 253402207200999 THEN
                reason := coalesce(reason, format('"%s" is not an epoch: write Unix milliseconds or a time with a zone between the years 1970 and 9999, '
                    'such as epoch=2024-01-01T00:00:00Z', token));
            END IF;
        ELSIF letter IN ('t', 'd', 'w', 'h', 's') AND token ~ '^.[0-9]+$' THEN
            bits := CASE WHEN length(token) < 10 THEN substr(token, 2)::integer ELSE 0 END;
            reason := coalesce(reason, CASE
                WHEN bits NOT BETWEEN 1 AND most THEN format('"%s" is not a width: the field %s has 1 to %s bits', token, letter, most)
                WHEN strpos(array_to_string(fields, ' '), letter) > 0 THEN format('"%s" sets a field a second time', token) END);
            fields := fields || (letter || bits);
        ELSE
            reason := coalesce(reason, CASE WHEN snowflake_preset(token) IS NOT NULL
                THEN format('"%s" is the name of a layout, and can only be the first token', token)
                ELSE format('"%s" is neither the name of a layout nor a field such as t41, d5, w5, h8 or s12, nor unit= or epoch=', token) END);
        END IF;
    END LOOP;
    IF fields = '{}' AND preset IS NOT NULL THEN
        fields := string_to_array(split_part(preset, ' unit', 1), ' ');
    END IF;
    preset := coalesce(preset, snowflake_preset('flat'));
    IF reason IS NULL THEN
        found.text := array_to_string(fields, ' ');
        found.tick_ms := coalesce(rtrim(unit, 'msMS')::bigint * CASE WHEN unit ~* 'ms$' THEN 1 ELSE 1000 END,
            substring(preset FROM 'unit=([0-9]+)')::bigint);
        found.epoch := coalesce(found.epoch, split_part(preset, 'epoch=', 2)::bigint);
        -- From the lowest field on.
        FOR at IN REVERSE cardinality(fields)..1 LOOP
            bits := substr(fields[at], 2)::integer;
            CASE left(fields[at], 1)
                WHEN 't' THEN found.timestamp_bits := bits; found.timestamp_shift := sum;
                WHEN 'd' THEN found.datacenter_bits := bits; found.datacenter_shift := sum;
                WHEN 'w' THEN found.worker_bits := bits; found.worker_shift := sum;
                WHEN 'h' THEN found.tag_bits := bits; found.tag_shift := sum;
                WHEN 's' THEN found.sequence_bits := bits; found.sequence_shift := sum;
            END CASE;
            sum := sum + bits;
        END LOOP;
        reason := CASE
            WHEN fields = '{}' THEN 'A layout begins with a name or a field such as t41'
            WHEN found.timestamp_bits IS NULL THEN format('"%s" has no timestamp: add a field such as t41', found.text)
            WHEN sum > 64 THEN format('"%s" has %s bits, and an ID has 64', found.text, sum)
            WHEN found.epoch + found.tick_ms * 2::numeric ^ found.timestamp_bits > 9007199254740992
                THEN format('"t%s" lasts too long: a layout can last until about the year 287000', found.timestamp_bits) END;
    END IF;
    IF reason IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('invalid layout: "%s"', layout),
            DETAIL = reason || '.', HINT = 'See the view snowflake_layouts.';
    END IF;
    -- A field that the layout lacks has no bits.
    found.datacenter_bits := coalesce(found.datacenter_bits, 0); found.datacenter_shift := coalesce(found.datacenter_shift, 0);
    found.worker_bits := coalesce(found.worker_bits, 0); found.worker_shift := coalesce(found.worker_shift, 0);
    found.tag_bits := coalesce(found.tag_bits, 0); found.tag_shift := coalesce(found.tag_shift, 0);
    found.sequence_bits := coalesce(found.sequence_bits, 0); found.sequence_shift := coalesce(found.sequence_shift, 0);
    found.least_id := CASE sum WHEN 64 THEN -9223372036854775808 ELSE 0 END;
    found.greatest_id := CASE WHEN sum >= 63 THEN 9223372036854775807 ELSE (1::bigint << sum) - 1 END;
    -- The last one whose IDs are not negative.
    found.last_tick := least(~(-1::bigint << found.timestamp_bits), 9223372036854775807 >> found.timestamp_shift);
    -- The last Unix millisecond after which IDs can be five seconds ahead.
    found.issues_until := found.epoch + found.tick_ms * found.last_tick - 5000;
    found.sorts_by_time := found.timestamp_shift + found.timestamp_bits = sum;
    found.text := format('%s unit=%s epoch=%s', found.text, CASE found.tick_ms WHEN 1000 THEN '1s' ELSE found.tick_ms || 'ms' END,
        snowflake_display_time(found.epoch));
    RETURN found;
END
$$;
COMMENT ON FUNCTION snowflake_fields(text) IS 'not to be called: where the fields of a layout are';

CREATE OR REPLACE VIEW snowflake_layouts AS
    SELECT name, split_part((f).text, ' unit', 1) AS fields, interval '1 millisecond' * (f).tick_ms::float8 AS unit, snowflake_at((f).epoch) AS epoch,
        snowflake_at(last) AS last_timestamp,
        round((2::float8 ^ (f).timestamp_bits::float8 * (f).tick_ms::float8 / (365.2425 * 86400000)::float8)::numeric, 1)::float8 AS years,
        1::bigint << ((f).datacenter_bits + (f).worker_bits) AS workers,
        (1000::bigint << (f).sequence_bits) / (f).tick_ms AS max_ids_per_second,
        (f).sorts_by_time AND (f).least_id = 0 AND clock_timestamp() BETWEEN snowflake_at((f).epoch) AND snowflake_at(last) AS can_generate,
        source
    FROM (VALUES
        (1, 'flat', 'snowflake_pg: twitter, with data center and worker as one number'),
        (2, 'twitter', 'twitter-archive/snowflake, IdWorker.scala'),
        (3, 'leaf', 'Meituan-Dianping/Leaf, SnowflakeIDGenImpl.java'),
        (4, 'uid', 'baidu/uid-generator, DefaultUidGenerator.java and BitsAllocator.java'),
        (5, 'k8s', '"Snowflake: the algorithm explained and applied", an article in Chinese of 2021-09-22'),
        (6, 'game', 'snowflake_pg: a million servers, each with 4096 IDs a second'),
        (7, 'js', 'snowflake_pg: below 2^53, so exact as a number of JavaScript''s'),
        (8, 'pgedge', 'pgEdge/snowflake, snowflake.c'),
        (9, 'pgactive', 'aws/pgactive, src/pgactive_seq.c'),
        (10, 'pgdog', 'pgdogdev/pgdog, pgdog/src/unique_id.rs'),
        (11, 'pgdog_compact', 'pgdogdev/pgdog, pgdog/src/unique_id.rs, with unique_id_function = compact'),
        (12, 'clickhouse', 'ClickHouse/ClickHouse, src/Functions/generateSnowflakeID.cpp'),
        (13, 'tsid', 'vladmihalcea/hypersistence-tsid and f4b6a3/tsid-creator, with 10 bits for the node'),
        (14, 'sonyflake', 'sony/sonyflake, sonyflake.go'),
        (15, 'instagram', '"Sharding & IDs at Instagram", instagram-engineering.com'),
        (16, 'discord', 'discord/discord-api-docs, Reference.md'),
        (17, 'mastodon', 'mastodon/mastodon, lib/mastodon/snowflake.rb')
    ) presets(place, name, source)
    CROSS JOIN LATERAL (SELECT snowflake_fields(name) AS f) of_preset
    CROSS JOIN LATERAL (SELECT (f).epoch + (f).tick_ms * ~(-1::bigint << (f).timestamp_bits) AS last) of_last
    ORDER BY place;
COMMENT ON VIEW snowflake_layouts IS 'one row for each named layout';
GRANT SELECT ON snowflake_layouts TO PUBLIC;

-- The configuration: snowflake_set_layout() and snowflake_set_worker_id() replace these functions. STABLE, so that the
-- planner inlines them, and plans are made anew: it would only evaluate them if they were IMMUTABLE.
DO $$
BEGIN
    IF to_regprocedure('snowflake_layout()') IS NULL THEN
        CREATE FUNCTION snowflake_layout() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE RETURN 'flat'::text;
        CREATE FUNCTION snowflake_worker_id() RETURNS integer LANGUAGE sql STABLE PARALLEL SAFE RETURN NULL::integer;
        CREATE FUNCTION snowflake_datacenter_id() RETURNS integer LANGUAGE sql STABLE PARALLEL SAFE RETURN 0;
    END IF;
    IF to_regprocedure('snowflake_registration()') IS NULL THEN
        CREATE FUNCTION snowflake_registration() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE RETURN '0'::text;
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_layout() IS 'layout of this database, from snowflake_set_layout()';
COMMENT ON FUNCTION snowflake_worker_id() IS 'worker ID of this database, from snowflake_set_worker_id()';
COMMENT ON FUNCTION snowflake_datacenter_id() IS 'data center of this database, from snowflake_set_worker_id()';
COMMENT ON FUNCTION snowflake_registration() IS 'not to be called: which call of snowflake_set_worker_id() is in force; NULL after rows of a dump were restored';

-- Decoding and composing -----------------------------------------------------------------------------------------------

-- The bodies of most functions are parsed here and now, and the planner inlines them: what depends on the layout alone becomes a constant.

CREATE OR REPLACE FUNCTION snowflake_must_not_be_negative(id bigint) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path FROM CURRENT AS $$
BEGIN
    IF id < 0 THEN
        RAISE EXCEPTION USING ERRCODE = 'numeric_value_out_of_range', MESSAGE = 'Snowflake ID must not be negative',
            DETAIL = format('The value is %s.', id);
    END IF;
    RETURN id;
END
$$;
COMMENT ON FUNCTION snowflake_must_not_be_negative(bigint) IS 'not to be called: the error for a negative ID';

CREATE OR REPLACE FUNCTION snowflake_time_of(id bigint, f snowflake_fields) RETURNS timestamptz
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path FROM CURRENT AS $$
BEGIN
    IF id < f.least_id THEN
        PERFORM snowflake_must_not_be_negative(id);
    ELSIF id > f.greatest_id THEN
        RAISE EXCEPTION USING ERRCODE = 'numeric_value_out_of_range', MESSAGE = 'the ID does not fit the layout',
            DETAIL = format('The ID is %s, and the greatest one of layout %s is %s.', id, f.text, f.greatest_id);
    END IF;
    RETURN snowflake_at(f.epoch + f.tick_ms * ((id >> f.timestamp_shift) & ~(-1::bigint << f.timestamp_bits)));
END
$$;
COMMENT ON FUNCTION snowflake_time_of(bigint, snowflake_fields) IS 'not to be called: when an ID was issued';

CREATE OR REPLACE FUNCTION snowflake_timestamp(id bigint, layout text) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN snowflake_time_of(id, snowflake_fields(layout));
COMMENT ON FUNCTION snowflake_timestamp(bigint, text) IS 'when an ID of another layout was issued';

-- now() keeps the planner from taking a form without a layout for IMMUTABLE, so that an index or a generated column must name a layout, as
-- with the extension.
CREATE OR REPLACE FUNCTION snowflake_timestamp(id bigint) RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE WHEN now() IS NOT NULL THEN snowflake_timestamp(id, snowflake_layout()) END;
COMMENT ON FUNCTION snowflake_timestamp(bigint) IS 'when an ID was issued: the start of its tick';

CREATE OR REPLACE FUNCTION snowflake_unpack(
        id bigint, f snowflake_fields,
        OUT issued_at timestamptz, OUT datacenter_id integer, OUT worker_id integer, OUT sequence integer, OUT tag integer)
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path FROM CURRENT AS $$
BEGIN
    issued_at := snowflake_time_of(id, f);
    datacenter_id := CASE WHEN f.datacenter_bits > 0 THEN (id >> f.datacenter_shift) & ~(-1::bigint << f.datacenter_bits) END;
    worker_id := CASE WHEN f.worker_bits > 0 THEN (id >> f.worker_shift) & ~(-1::bigint << f.worker_bits) END;
    sequence := CASE WHEN f.sequence_bits > 0 THEN (id >> f.sequence_shift) & ~(-1::bigint << f.sequence_bits) END;
    tag := CASE WHEN f.tag_bits > 0 THEN (id >> f.tag_shift) & ~(-1::bigint << f.tag_bits) END;
END
$$;
COMMENT ON FUNCTION snowflake_unpack(bigint, snowflake_fields) IS 'not to be called: the fields of an ID';

CREATE OR REPLACE FUNCTION snowflake_decode(
        id bigint, layout text,
        OUT issued_at timestamptz, OUT datacenter_id integer, OUT worker_id integer, OUT sequence integer, OUT tag integer)
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN snowflake_unpack(id, snowflake_fields(layout));
COMMENT ON FUNCTION snowflake_decode(bigint, text) IS 'fields of an ID of another layout';

CREATE OR REPLACE FUNCTION snowflake_decode(
        id bigint, OUT issued_at timestamptz, OUT datacenter_id integer, OUT worker_id integer, OUT sequence integer, OUT tag integer)
    LANGUAGE sql STABLE STRICT PARALLEL SAFE
    RETURN snowflake_unpack(id, snowflake_fields(snowflake_layout()));
COMMENT ON FUNCTION snowflake_decode(bigint) IS 'fields of an ID; NULL for a field that the layout lacks';

-- The order among equal times is that of snowflake_layouts.
CREATE OR REPLACE FUNCTION snowflake_decode_all(
        id bigint, OUT layout text, OUT issued_at timestamptz, OUT datacenter_id integer, OUT worker_id integer, OUT sequence integer, OUT tag integer)
    RETURNS SETOF record LANGUAGE sql STABLE STRICT PARALLEL SAFE ROWS 10
    BEGIN ATOMIC
        SELECT name, d.* FROM (SELECT row_number() OVER () AS place, name, snowflake_fields(name) AS f FROM snowflake_layouts) layouts
            CROSS JOIN LATERAL snowflake_decode(CASE WHEN id BETWEEN (f).least_id AND (f).greatest_id THEN id END, name) d
            WHERE d.issued_at <= clock_timestamp() + interval '1 day'
            ORDER BY d.issued_at DESC, place;
    END;
COMMENT ON FUNCTION snowflake_decode_all(bigint) IS 'fields of an ID of unknown origin under each named layout that it fits, the latest time first, without times more than a day ahead';

-- Selecting by time, with an index on the ID ---------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION snowflake_refuse_time(at timestamptz, f snowflake_fields) RETURNS void
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path FROM CURRENT AS $$
DECLARE
    last bigint := f.epoch + f.tick_ms * ~(-1::bigint << f.timestamp_bits);
    is_early boolean := at < snowflake_at(f.epoch);
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'datetime_field_overflow',
        MESSAGE = format('timestamp is %s of the layout', CASE WHEN is_early THEN 'before the epoch' ELSE 'after the end' END),
        DETAIL = format('IDs of this layout have timestamps from %s to %s.', snowflake_display_time(f.epoch), snowflake_display_time(last)),
        HINT = format('For a range that is open on this side, use ''%s''.', CASE WHEN is_early THEN '-infinity' ELSE 'infinity' END);
END
$$;
COMMENT ON FUNCTION snowflake_refuse_time(timestamptz, snowflake_fields) IS 'not to be called: the error for a time that a layout does not have';

CREATE OR REPLACE FUNCTION snowflake_must_sort(f snowflake_fields) RETURNS void
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT f.sorts_by_time THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'IDs of this layout do not sort by time',
            DETAIL = format('The timestamp is not the highest field of "%s".', f.text), HINT = 'Compare snowflake_timestamp(id, layout) instead.';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_must_sort(snowflake_fields) IS 'not to be called: the error for a layout whose IDs do not sort by time';

CREATE OR REPLACE FUNCTION snowflake_min_id(at timestamptz, layout text) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path FROM CURRENT AS $$
DECLARE
    f snowflake_fields := snowflake_fields(layout);
    tick bigint;
BEGIN
    PERFORM snowflake_must_sort(f);
    IF NOT isfinite(at) THEN
        RETURN CASE WHEN at = 'infinity' THEN 9223372036854775807 ELSE 0 END;
    END IF;
    tick := floor((floor(extract(epoch FROM at) * 1000) - f.epoch) / f.tick_ms);
    IF tick BETWEEN 0 AND f.last_tick THEN
        RETURN tick << f.timestamp_shift;
    ELSIF tick > 0 AND tick <= ~(-1::bigint << f.timestamp_bits) THEN
        RAISE EXCEPTION USING ERRCODE = 'datetime_field_overflow', MESSAGE = 'timestamp is after the last bigint of the layout',
            DETAIL = format('IDs after %s are negative, and do not sort by time.', snowflake_display_time(f.epoch + f.tick_ms * f.last_tick));
    END IF;
    PERFORM snowflake_refuse_time(at, f);
END
$$;
COMMENT ON FUNCTION snowflake_min_id(timestamptz, text) IS 'lowest ID of the tick of a time in another layout';

CREATE OR REPLACE FUNCTION snowflake_min_id(at timestamptz) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN snowflake_min_id(at, snowflake_layout());
COMMENT ON FUNCTION snowflake_min_id(timestamptz) IS 'lowest ID of the tick of a time; 0 for -infinity, the largest bigint for infinity';

CREATE OR REPLACE FUNCTION snowflake_within(id bigint, since timestamptz, until timestamptz, layout text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN id >= snowflake_min_id(since, layout) AND id < snowflake_min_id(until, layout);
COMMENT ON FUNCTION snowflake_within(bigint, timestamptz, timestamptz, text) IS 'whether an ID of another layout was issued in this time';

CREATE OR REPLACE FUNCTION snowflake_within(id bigint, since timestamptz, until timestamptz DEFAULT 'infinity'::timestamptz) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN id >= snowflake_min_id(since, snowflake_layout()) AND id < snowflake_min_id(until, snowflake_layout());
COMMENT ON FUNCTION snowflake_within(bigint, timestamptz, timestamptz) IS
    'whether an ID was issued in the tick of since or later, and before the tick of until; uses an index on the ID';

CREATE OR REPLACE FUNCTION snowflake_interval(length interval, layout text) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path FROM CURRENT AS $$
DECLARE
    f snowflake_fields := snowflake_fields(layout);
    -- Months first: those of an infinite interval are not 0.
    is_fixed boolean := isfinite(length) AND extract(year FROM length) = 0 AND extract(month FROM length) = 0;
    micros numeric := CASE WHEN is_fixed THEN extract(epoch FROM length) * 1000000 END;
    ticks numeric := trunc(trunc(micros / 1000) / f.tick_ms);
BEGIN
    PERFORM snowflake_must_sort(f);
    IF NOT is_fixed THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'an interval of months or of infinity has no fixed length',
            DETAIL = format('The value is %s.', length), HINT = 'Use days, which have 24 hours each.';
    ELSIF micros < 0 OR ticks = 0 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = CASE WHEN micros < 0 THEN 'the interval must not be negative' ELSE 'the interval is shorter than a tick of the layout' END,
            DETAIL = format('The value is %s, and the layout is %s.', length, f.text);
    ELSIF ticks > f.last_tick THEN
        RAISE EXCEPTION USING ERRCODE = 'numeric_value_out_of_range', MESSAGE = 'the interval is longer than the layout lasts',
            DETAIL = format('The value is %s, and the layout is %s.', length, f.text);
    END IF;
    RETURN ticks::bigint << f.timestamp_shift;
END
$$;
COMMENT ON FUNCTION snowflake_interval(interval, text) IS 'difference between IDs of another layout that were issued this long apart';

CREATE OR REPLACE FUNCTION snowflake_interval(length interval) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE WHEN now() IS NOT NULL THEN snowflake_interval(length, snowflake_layout()) END;
COMMENT ON FUNCTION snowflake_interval(interval) IS 'difference between IDs issued this long apart; without months';

-- A number at its place in an ID.
CREATE OR REPLACE FUNCTION snowflake_place(name text, value bigint, bits integer, shift integer, f snowflake_fields) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path FROM CURRENT AS $$
BEGIN
    IF value NOT BETWEEN 0 AND ~(-1::bigint << bits) THEN
        RAISE EXCEPTION USING ERRCODE = 'numeric_value_out_of_range', MESSAGE = format('%s does not fit the layout', name),
            DETAIL = format('%s is %s, and layout %s %s.', name, value, f.text,
                CASE bits WHEN 0 THEN 'has no such field' ELSE format('allows 0 to %s', ~(-1::bigint << bits)) END);
    END IF;
    RETURN value << shift;
END
$$;
COMMENT ON FUNCTION snowflake_place(text, bigint, integer, integer, snowflake_fields) IS 'not to be called: a number at its place in an ID';

-- Not STRICT: decoding gives NULL for a field that the layout does not have, and composing takes it back.
CREATE OR REPLACE FUNCTION snowflake_compose(
        issued_at timestamptz, datacenter_id integer, worker_id integer, sequence integer, tag integer, layout text) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path FROM CURRENT AS $$
DECLARE
    f snowflake_fields := snowflake_fields(layout);
    tick bigint;
    id bigint;
BEGIN
    IF issued_at IS NULL OR layout IS NULL OR datacenter_id IS NULL AND f.datacenter_bits > 0 OR worker_id IS NULL AND f.worker_bits > 0
        OR sequence IS NULL AND f.sequence_bits > 0 THEN
        RETURN NULL;
    END IF;
    IF NOT isfinite(issued_at) OR issued_at < '1970-01-01Z' THEN
        PERFORM snowflake_refuse_time(issued_at, f);
    END IF;
    id := snowflake_place('tag', coalesce(tag, 0)::bigint, f.tag_bits, f.tag_shift, f);
    tick := floor((floor(extract(epoch FROM issued_at) * 1000) - f.epoch) / f.tick_ms);
    IF tick NOT BETWEEN 0 AND ~(-1::bigint << f.timestamp_bits) THEN
        PERFORM snowflake_refuse_time(issued_at, f);
    END IF;
    id := id | (tick << f.timestamp_shift) | snowflake_place('datacenter_id', coalesce(datacenter_id, 0)::bigint, f.datacenter_bits, f.datacenter_shift, f)
        | snowflake_place('worker_id', coalesce(worker_id, 0)::bigint, f.worker_bits, f.worker_shift, f)
        | snowflake_place('sequence', coalesce(sequence, 0)::bigint, f.sequence_bits, f.sequence_shift, f);
    RETURN id;
END
$$;
COMMENT ON FUNCTION snowflake_compose(timestamptz, integer, integer, integer, integer, text) IS 'ID of another layout with these fields';

CREATE OR REPLACE FUNCTION snowflake_compose(
        issued_at timestamptz, datacenter_id integer, worker_id integer, sequence integer, tag integer DEFAULT 0) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE WHEN now() IS NOT NULL THEN snowflake_compose(issued_at, datacenter_id, worker_id, sequence, tag, snowflake_layout()) END;
COMMENT ON FUNCTION snowflake_compose(timestamptz, integer, integer, integer, integer) IS
    'ID with these fields; NULL or 0 for a field that the layout lacks, and for no tag';

CREATE OR REPLACE FUNCTION snowflake_explain(id bigint, layout text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path FROM CURRENT AS $$
DECLARE
    f snowflake_fields := snowflake_fields(layout);
    drawn text := '';
    letters text := '';
    meanings text := '';
    field record;
    value bigint;
BEGIN
    PERFORM snowflake_timestamp(id, layout);
    FOR field IN
        SELECT * FROM (VALUES ('t', 'timestamp', f.timestamp_bits, f.timestamp_shift), ('d', 'data center', f.datacenter_bits, f.datacenter_shift),
            ('w', 'worker', f.worker_bits, f.worker_shift), ('h', 'tag', f.tag_bits, f.tag_shift), ('s', 'sequence', f.sequence_bits, f.sequence_shift),
            ('-', NULL, 64 - (SELECT sum(b) FROM unnest(ARRAY[f.timestamp_bits, f.datacenter_bits, f.worker_bits, f.tag_bits, f.sequence_bits]) b)::integer, 64))
            fields(letter, name, bits, shift)
        WHERE bits > 0 ORDER BY shift DESC
    LOOP
        value := CASE WHEN field.letter = '-' THEN 0 ELSE (id >> field.shift) & ~(-1::bigint << field.bits) END;
        drawn := concat_ws(' ', nullif(drawn, ''), right(value::bit(64)::text, field.bits));
        letters := concat_ws(' ', nullif(letters, ''), repeat(field.letter, field.bits));
        meanings := meanings || CASE field.letter
            WHEN '-' THEN ''
            WHEN 't' THEN format(E'\nt timestamp    %s ticks of %s after %s\n%s= %s', value, CASE f.tick_ms WHEN 1000 THEN '1s' ELSE f.tick_ms || 'ms' END,
                snowflake_display_time(f.epoch), repeat(' ', 15), snowflake_display_time(f.epoch + f.tick_ms * value))
            ELSE format(E'\n%s %s %s of 0 to %s%s', field.letter, rpad(field.name, 12), value, ~(-1::bigint << field.bits),
                CASE field.letter WHEN 's' THEN ' in this tick' END) END;
    END LOOP;
    RETURN drawn || E'\n' || letters || meanings;
END
$$;
COMMENT ON FUNCTION snowflake_explain(bigint, text) IS 'bits of an ID of another layout, grouped by field';

CREATE OR REPLACE FUNCTION snowflake_explain(id bigint) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE WHEN now() IS NOT NULL THEN snowflake_explain(id, snowflake_layout()) END;
COMMENT ON FUNCTION snowflake_explain(bigint) IS 'bits of an ID, grouped by field';

-- Partitions by time ---------------------------------------------------------------------------------------------------
--
-- Not STRICT: no layout means that of the database. NULL for another argument gives no rows.

-- The partitions of a table and their IDs, NULL for a default partition.
CREATE OR REPLACE FUNCTION snowflake_ranges(parent regclass, OUT partition regclass, OUT ids int8range) RETURNS SETOF record
    LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SET search_path FROM CURRENT AS $$
DECLARE
    key text := pg_get_partkeydef(parent);
BEGIN
    IF key IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'wrong_object_type', MESSAGE = format('%s is not a partitioned table', parent),
            HINT = 'Create it with PARTITION BY RANGE (id).';
    ELSIF NOT EXISTS (SELECT FROM pg_partitioned_table JOIN pg_attribute ON attrelid = partrelid AND attnum = partattrs[0] JOIN pg_type t ON t.oid = atttypid
        WHERE partrelid = parent AND partstrat = 'r' AND partnatts = 1 AND 'bigint'::regtype IN (t.oid, typbasetype)) THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_object_definition', MESSAGE = format('%s is not partitioned by range of a bigint column', parent),
            DETAIL = format('Its partition key is %s.', key), HINT = 'Create it with PARTITION BY RANGE (id).';
    END IF;
    RETURN QUERY
        SELECT c.oid::regclass, CASE WHEN bound IS NULL THEN NULL ELSE int8range(bound[1]::bigint, bound[2]::bigint) END
        FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid
        CROSS JOIN LATERAL (SELECT regexp_match(pg_get_expr(relpartbound, c.oid), '^FOR VALUES FROM [(](?:''(-?[0-9]+)''|MINVALUE)[)] TO [(](?:''(-?[0-9]+)''|MAXVALUE)[)]$') AS bound) b
        WHERE inhparent = parent ORDER BY bound IS NULL, lower(int8range(bound[1]::bigint, bound[2]::bigint)) NULLS FIRST;
END
$$;
COMMENT ON FUNCTION snowflake_ranges(regclass) IS 'not to be called: the partitions of a table and their IDs';

-- When the period of a time begins, or the nth one after it: of the calendar from January 2000 on, or of this length from Monday
-- 2001-01-01 on, in UTC.
CREATE OR REPLACE FUNCTION snowflake_period(every interval, at timestamptz, nth integer) RETURNS timestamptz
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path FROM CURRENT AS $$
DECLARE
    utc timestamp := at AT TIME ZONE 'UTC';
    months integer := extract(year FROM every) * 12 + extract(month FROM every);
    seconds bigint := extract(epoch FROM every);
    month integer := (extract(year FROM utc) - 2000) * 12 + extract(month FROM utc) - 1;
BEGIN
    IF months > 0 THEN
        RETURN ('2000-01-01'::timestamp + make_interval(months => (floor(month::float8 / months)::integer + nth) * months)) AT TIME ZONE 'UTC';
    END IF;
    RETURN snowflake_at(1000 * (978307200 + seconds * (floor((floor(extract(epoch FROM at)) - 978307200) / seconds)::bigint + nth)));
END
$$;
COMMENT ON FUNCTION snowflake_period(interval, timestamptz, integer) IS 'not to be called: when a period begins';

DO $$
BEGIN
    IF to_regtype('snowflake_partition') IS NULL THEN
        CREATE TYPE snowflake_partition AS (partition regclass, since timestamptz, until timestamptz, rows bigint, bytes bigint);
        CREATE TYPE snowflake_old_partition AS (command text, partition text, since timestamptz, until timestamptz, rows bigint, bytes bigint);
    END IF;
END
$$;
COMMENT ON TYPE snowflake_partition IS 'row of snowflake_partitions() and snowflake_create_partitions()';
COMMENT ON TYPE snowflake_old_partition IS 'row of snowflake_drop_partitions()';

CREATE OR REPLACE FUNCTION snowflake_partitions(parent regclass, layout text DEFAULT NULL) RETURNS SETOF snowflake_partition
    LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 100 SET search_path FROM CURRENT AS $$
DECLARE
    f snowflake_fields := snowflake_fields(coalesce(layout, snowflake_layout()));
BEGIN
    PERFORM snowflake_must_sort(f);
    RETURN QUERY
        SELECT r.partition,
            CASE WHEN ids IS NULL THEN NULL WHEN coalesce(lower(ids), 0) <= 0 THEN '-infinity' WHEN lower(ids) > f.greatest_id THEN 'infinity' ELSE snowflake_time_of(lower(ids), f) END,
            CASE WHEN ids IS NULL THEN NULL WHEN upper_inf(ids) OR upper(ids) > f.greatest_id THEN 'infinity'
                ELSE snowflake_time_of(upper(ids) - 1, f) + interval '1 millisecond' * f.tick_ms::float8 END,
            (SELECT sum(reltuples)::bigint FROM pg_partition_tree(r.partition) t JOIN pg_class c ON c.oid = t.relid WHERE isleaf AND reltuples >= 0),
            (SELECT coalesce(sum(pg_total_relation_size(t.relid)), 0)::bigint FROM pg_partition_tree(r.partition) t)
        FROM snowflake_ranges(parent) r;
END
$$;
COMMENT ON FUNCTION snowflake_partitions(regclass, text) IS
    'partitions of a table that is partitioned by range of its ID: from when until when, rows and size; a default partition is last';

CREATE OR REPLACE FUNCTION snowflake_create_partitions(parent regclass, every interval, ahead integer, layout text DEFAULT NULL) RETURNS SETOF snowflake_partition
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 10 SET search_path FROM CURRENT AS $$
DECLARE
    f snowflake_fields := snowflake_fields(coalesce(layout, snowflake_layout()));
    months integer := extract(year FROM every) * 12 + extract(month FROM every);
    micros numeric := extract(epoch FROM every) * 1000000;
    schema name;
    name name;
    owner regrole;
    like_it text;
    covered int8multirange;
    wanted int8multirange := '{}';
    starts bigint[];
    missing int8range;
    partition_name text;
    since timestamptz;
    made regclass[] := '{}';
BEGIN
    IF parent IS NULL OR every IS NULL OR ahead IS NULL THEN
        RETURN;
    END IF;
    PERFORM snowflake_must_sort(f);
    IF months < 0 OR micros <= 0 OR micros % 1000000 <> 0 OR months > 0 AND every <> make_interval(months => months) OR months = 0 AND extract(day FROM every) < 0 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'every must be a number of months, or a whole number of seconds',
            DETAIL = format('The value is %s.', every), HINT = 'Use, for example, interval ''1 hour'', ''1 day'', ''1 week'', ''1 month'' or ''1 year''.';
    ELSIF ahead NOT BETWEEN 0 AND 1000 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'ahead must be between 0 and 1000', DETAIL = format('The value is %s.', ahead);
    END IF;
    SELECT nspname, relname, relowner, concat(' USING ' || quote_ident(amname), ' TABLESPACE ' || quote_ident(spcname)) INTO schema, name, owner, like_it
        FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace LEFT JOIN pg_am a ON a.oid = relam LEFT JOIN pg_tablespace t ON t.oid = reltablespace
        WHERE c.oid = parent;
    -- A CHECK or an index can call functions of the owner.
    IF owner <> quote_ident(current_user)::regrole THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('must be owner of %s', parent), HINT = format('Type SET ROLE %s.', owner);
    END IF;
    PERFORM snowflake_ranges(parent);
    -- Against other schema changes; readers and writers continue.
    EXECUTE format('LOCK TABLE ONLY %I.%I IN SHARE UPDATE EXCLUSIVE MODE', schema, name);
    SELECT coalesce(range_agg(ids), '{}') INTO covered FROM snowflake_ranges(parent) WHERE ids IS NOT NULL;
    -- First IDs of the periods, NULL after the end of the layout.
    SELECT array_agg(CASE WHEN tick <= f.last_tick THEN tick << f.timestamp_shift END ORDER BY nth) INTO starts FROM (
        SELECT nth, greatest(ceil((floor(extract(epoch FROM snowflake_period(every, clock_timestamp(), nth)) * 1000) - f.epoch) / f.tick_ms), 0)::bigint AS tick
        FROM generate_series(0, ahead + 1) nth) ticks;
    IF starts[ahead + 1] IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'datetime_field_overflow', MESSAGE = 'the layout ends before the last partition begins',
            DETAIL = format('The layout is %s.', f.text), HINT = 'Ask for fewer partitions ahead, or for shorter ones.';
    END IF;
    FOR nth IN 1..ahead + 1 LOOP
        wanted := int8multirange(int8range(starts[nth], starts[nth + 1])) - covered;
        FOREACH missing IN ARRAY ARRAY(SELECT r FROM unnest(wanted) r) LOOP
            since := snowflake_time_of(lower(missing), f);
            partition_name := '_' || to_char(since AT TIME ZONE 'UTC', CASE WHEN date_trunc('day', since, 'UTC') = since THEN 'YYYYMMDD'
                WHEN date_trunc('minute', since, 'UTC') = since THEN 'YYYYMMDD_HH24MI' ELSE 'YYYYMMDD_HH24MISS' END);
            -- A name has 63 bytes, which may not end within a character.
            partition_name := (SELECT left(name::text, n) || partition_name FROM generate_series(length(name::text), 0, -1) n
                WHERE octet_length(left(name::text, n) || partition_name) <= 63 LIMIT 1);
            IF to_regclass(format('%I.%I', schema, partition_name)) IS NOT NULL THEN
                RAISE EXCEPTION USING ERRCODE = 'duplicate_table', MESSAGE = format('relation "%s" already exists', partition_name),
                    DETAIL = format('A partition from %s on is missing, and would have this name.', snowflake_display_time(f.epoch + f.tick_ms * (lower(missing) >> f.timestamp_shift))),
                    HINT = 'Rename it. If it holds the IDs of that time, use ALTER TABLE ... ATTACH PARTITION.';
            END IF;
            -- PARTITION OF would lock out readers and writers.
            EXECUTE format('CREATE TABLE %I.%I (LIKE %I.%I INCLUDING COMPRESSION INCLUDING CONSTRAINTS INCLUDING DEFAULTS INCLUDING GENERATED INCLUDING STORAGE)%s',
                schema, partition_name, schema, name, like_it);
            EXECUTE format('ALTER TABLE %I.%I ATTACH PARTITION %I.%I FOR VALUES FROM (%L) TO (%s)', schema, name, schema, partition_name, lower(missing),
                CASE WHEN upper_inf(missing) THEN 'MAXVALUE' ELSE quote_literal(upper(missing)) END);
            made := made || format('%I.%I', schema, partition_name)::regclass;
        END LOOP;
    END LOOP;
    RETURN QUERY SELECT * FROM snowflake_partitions(parent, layout) p WHERE p.partition = ANY (made);
END
$$;
COMMENT ON FUNCTION snowflake_create_partitions(regclass, interval, integer, text) IS
    'create the missing partitions of a table that is partitioned by range of its ID, for the current period, such as a day, and for so many periods ahead; returns those created';

CREATE OR REPLACE FUNCTION snowflake_drop_partitions(parent regclass, before timestamptz, dry_run boolean DEFAULT true, layout text DEFAULT NULL)
    RETURNS SETOF snowflake_old_partition
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 10 SET search_path FROM CURRENT AS $$
DECLARE
    f snowflake_fields := snowflake_fields(coalesce(layout, snowflake_layout()));
    old record;
    has_default boolean;
BEGIN
    IF parent IS NULL OR before IS NULL OR dry_run IS NULL THEN
        RETURN;
    END IF;
    PERFORM snowflake_must_sort(f);
    IF before > clock_timestamp() THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'before must not be in the future',
            DETAIL = format('The clock shows %s.', clock_timestamp()), HINT = 'Use, for example, now() - interval ''90 days''.';
    END IF;
    has_default := EXISTS (SELECT FROM snowflake_ranges(parent) WHERE ids IS NULL);
    FOR old IN
        SELECT p.*, parent::regclass AS parent, inhdetachpending FROM snowflake_partitions(parent, layout) p JOIN pg_inherits ON inhrelid = p.partition
        WHERE p.until <= CASE WHEN isfinite(before) THEN date_bin(interval '1 millisecond' * f.tick_ms::float8, before, snowflake_at(f.epoch)) ELSE before END
    LOOP
        IF dry_run THEN
            RETURN QUERY VALUES (format('ALTER TABLE %s DETACH PARTITION %s%s', parent, old.partition, CASE WHEN old.inhdetachpending THEN ' FINALIZE'
                WHEN has_default THEN '' ELSE ' CONCURRENTLY' END), old.partition::text, old.since, old.until, old.rows, old.bytes);
        END IF;
        RETURN QUERY VALUES (format('DROP TABLE %s', old.partition), old.partition::text, old.since, old.until, old.rows, old.bytes);
        IF NOT dry_run THEN
            EXECUTE format('DROP TABLE %s', old.partition);
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION snowflake_drop_partitions(regclass, timestamptz, boolean, text) IS
    'commands for \gexec that detach and drop the partitions that end before a time, while readers and writers continue; with dry_run false, drops them at once';

-- Text and UUID: the same number, so no layout is needed ---------------------------------------------------------------

-- The digits of an encoding, from that of 0 on.
CREATE OR REPLACE FUNCTION snowflake_digits(encoding text, alphabet text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path FROM CURRENT AS $$
DECLARE
    usual text := CASE lower(encoding COLLATE "C")
        WHEN 'base62' THEN '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
        WHEN 'base58' THEN '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'
        WHEN 'crockford32' THEN '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
        WHEN 'hex' THEN '0123456789abcdef' END;
    reason text;
BEGIN
    IF usual IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('unrecognized encoding: "%s"', encoding),
            HINT = 'The encodings are base62, base58, crockford32, hex.';
    ELSIF alphabet IS NULL THEN
        RETURN usual;
    END IF;
    reason := CASE
        WHEN length(usual) < 58 THEN 'Only base62 and base58 can have an alphabet of choice'
        WHEN alphabet !~ '^[!-~]*$' THEN 'A character is not a letter, digit or punctuation mark of ASCII'
        WHEN (SELECT count(DISTINCT c COLLATE "C") FROM regexp_split_to_table(alphabet, '') c) < length(alphabet) THEN 'A character is repeated'
        WHEN length(alphabet) <> length(usual) THEN format('The alphabet has %s characters, and %s are needed', length(alphabet), length(usual)) END;
    IF reason IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('invalid alphabet for %s: "%s"', lower(encoding COLLATE "C"), alphabet),
            DETAIL = reason || '.';
    END IF;
    RETURN alphabet;
END
$$;
COMMENT ON FUNCTION snowflake_digits(text, text) IS 'not to be called: the digits of an encoding';

-- Not STRICT: no alphabet means the usual one. NULL for another argument gives NULL.
CREATE OR REPLACE FUNCTION snowflake_to_text(id bigint, encoding text, alphabet text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path FROM CURRENT AS $$
DECLARE
    digits text;
    base integer;
    rest bigint := id;
    written text := '';
BEGIN
    IF id IS NULL OR encoding IS NULL THEN
        RETURN NULL;
    END IF;
    digits := snowflake_digits(encoding, alphabet);
    PERFORM snowflake_must_not_be_negative(id);
    base := length(digits);
    WHILE rest > 0 OR length(written) < CASE base WHEN 32 THEN 13 WHEN 16 THEN 16 ELSE 1 END LOOP
        written := substr(digits, (rest % base)::integer + 1, 1) || written;
        rest := rest / base;
    END LOOP;
    RETURN written;
END
$$;
COMMENT ON FUNCTION snowflake_to_text(bigint, text, text) IS 'ID in base62, base58, crockford32 or hex';

CREATE OR REPLACE FUNCTION snowflake_from_text(text text, encoding text, alphabet text DEFAULT NULL) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path FROM CURRENT AS $$
DECLARE
    digits text;
    base integer;
    -- Separators and letters that mean another digit.
    cleaned text := text;
    digit integer;
    number numeric := 0;
BEGIN
    IF text IS NULL OR encoding IS NULL THEN
        RETURN NULL;
    END IF;
    digits := snowflake_digits(encoding, alphabet);
    base := length(digits);
    IF base = 32 THEN
        cleaned := translate(upper(text COLLATE "C"), 'ILO-', '110');
    ELSIF base = 16 THEN
        cleaned := lower(text COLLATE "C");
    END IF;
    FOR at IN 1..length(cleaned) LOOP
        digit := strpos(digits COLLATE "C", substr(cleaned, at, 1));
        IF digit = 0 THEN
            EXIT;
        END IF;
        -- A wrong digit takes precedence over a number that is too large.
        number := least(number * base + digit - 1, 9223372036854775808);
    END LOOP;
    IF digit = 0 OR cleaned = '' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_text_representation', MESSAGE = format('invalid input syntax for a Snowflake ID: "%s"', text),
            DETAIL = CASE WHEN cleaned = '' THEN 'The text has no digits.' ELSE format('A character is not a digit of %s.', lower(encoding COLLATE "C")) END,
            HINT = format('IDs are written with the digits %s.', digits);
    ELSIF number > 9223372036854775807 THEN
        RAISE EXCEPTION USING ERRCODE = 'numeric_value_out_of_range', MESSAGE = format('value is out of range for a Snowflake ID: "%s"', text),
            DETAIL = 'The value is greater than 9223372036854775807, the greatest ID.';
    END IF;
    RETURN number;
END
$$;
COMMENT ON FUNCTION snowflake_from_text(text, text, text) IS 'ID of such a text';

CREATE OR REPLACE FUNCTION snowflake_to_uuid(id bigint) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (SELECT (left(h, 12) || '8' || substr(h, 13, 3) || to_hex(8 + ((id & 15) >> 2)) || to_hex((id & 3) << 2) || '00000000000000')::uuid
        FROM (SELECT lpad(to_hex(snowflake_must_not_be_negative(id)), 16, '0') AS h) hex);
COMMENT ON FUNCTION snowflake_to_uuid(bigint) IS 'ID as a UUID of version 8';

CREATE OR REPLACE FUNCTION snowflake_from_uuid(uuid uuid) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path FROM CURRENT AS $$
DECLARE
    digits text := replace(uuid::text, '-', '');
    last integer := ('x' || substr(digits, 17, 2))::bit(8)::integer;
    reason text := CASE
        WHEN last >> 6 <> 2 THEN 'Its variant is not that of RFC 9562'
        WHEN substr(digits, 13, 1) <> '8' THEN format('Its version is %s, and that of an ID is 8', ('x' || substr(digits, 13, 1))::bit(4)::integer)
        WHEN (last & 3) <> 0 OR substr(digits, 19) <> repeat('0', 14) THEN 'Its last 58 bits are not all 0'
        WHEN left(digits, 1) >= '8' THEN 'The number in it is greater than 9223372036854775807, the greatest ID' END;
BEGIN
    IF reason IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = CASE WHEN reason LIKE 'The%' THEN 'numeric_value_out_of_range' ELSE 'invalid_parameter_value' END,
            MESSAGE = format('UUID "%s" does not hold a Snowflake ID', uuid), DETAIL = reason || '.',
            HINT = 'Only UUIDs from snowflake_to_uuid() can be converted back.';
    END IF;
    RETURN ('x' || left(digits, 12) || substr(digits, 14, 3) || '0')::bit(64)::bigint | ((last >> 2) & 15);
END
$$;
COMMENT ON FUNCTION snowflake_from_uuid(uuid) IS 'ID of such a UUID';

-- Issuing --------------------------------------------------------------------------------------------------------------

-- The position of the last ID: its tick, and its number in the tick. Neither a rollback nor a lost session takes it back, and it does not
-- go back with the clock. snowflake_move() changes it, under the lock.
CREATE SEQUENCE IF NOT EXISTS snowflake_position AS bigint MINVALUE 0 START 0;
COMMENT ON SEQUENCE snowflake_position IS 'position of the last ID; not to be changed';

-- The same, and what counts while it is there. A crash and a failover empty it. No subscription sets it, since it is unlogged.
CREATE UNLOGGED SEQUENCE IF NOT EXISTS snowflake_high_water_mark AS bigint MINVALUE 0 START 0;
COMMENT ON SEQUENCE snowflake_high_water_mark IS 'position of the last ID since a crash or a failover; not to be changed';

-- When this server began: a session compares it before its first ID, and continues above what a crash or a failover may have lost.
CREATE SEQUENCE IF NOT EXISTS snowflake_life AS bigint MINVALUE 0 START 0;
COMMENT ON SEQUENCE snowflake_life IS 'when the server began that issued the last ID; not to be changed';

-- What is locked for one ID. A view, since pg_dump, VACUUM and ANALYZE lock none. LOCK TABLE is for its owner: anybody can take an advisory
-- lock. The mode conflicts with itself, and with none that a role takes which may not lock it.
CREATE OR REPLACE VIEW snowflake_lock AS SELECT;
COMMENT ON VIEW snowflake_lock IS 'not to be used: sessions that issue IDs lock it, one after the other';

-- The database that has the worker ID: a dump has this row, too, and is restored to another one.
CREATE TABLE IF NOT EXISTS snowflake_database (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    system_identifier bigint NOT NULL,
    -- 0 after rows of a dump were restored into this database.
    database oid NOT NULL,
    relation oid NOT NULL,
    -- Equal to xmin of this row, which pg_upgrade keeps, and a dump does not.
    inserted_by xid8 NOT NULL,
    -- xmin of a catalog's row, which a logical replica keeps, and pg_upgrade does not. All three have another system identifier.
    catalog_xmin xid NOT NULL,
    version text NOT NULL
);
COMMENT ON TABLE snowflake_database IS 'the database for which snowflake_set_worker_id() was called';
REVOKE ALL ON SEQUENCE snowflake_position, snowflake_high_water_mark, snowflake_life FROM PUBLIC;
REVOKE ALL ON snowflake_database, snowflake_lock FROM PUBLIC;

-- Sets which call of snowflake_set_worker_id() is in force. Every session notices at its next ID.
CREATE OR REPLACE FUNCTION snowflake_register(call text) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path FROM CURRENT AS $$
BEGIN
    LOCK TABLE snowflake_lock IN SHARE UPDATE EXCLUSIVE MODE;
    EXECUTE format('CREATE OR REPLACE FUNCTION snowflake_registration() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE RETURN %L::text', call);
END
$$;
COMMENT ON FUNCTION snowflake_register(text) IS 'not to be called: sets which call of snowflake_set_worker_id() is in force';

-- Only snowflake_set_worker_id() inserts a row. A subscription brings the one of its publisher, which is ignored. pg_restore --data-only
-- brings an old one, and then sets the sequences back: this database is a copy from then on. In a transaction, that could be rolled back,
-- and sequences are not: an error keeps pg_restore from setting them. With the rights of who inserts: anybody can have a trigger call it.
CREATE OR REPLACE FUNCTION snowflake_guard_database() RETURNS trigger
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_RELID <> 'snowflake_database'::regclass THEN
        RAISE EXCEPTION USING ERRCODE = 'trigger_protocol_violated', MESSAGE = 'function "snowflake_guard_database" is for one table';
    ELSIF EXISTS (SELECT FROM pg_stat_subscription WHERE pid = pg_backend_pid()) THEN
        RETURN NULL;
    ELSIF TG_OP <> 'INSERT' THEN
        RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
    ELSIF NEW.inserted_by <> pg_current_xact_id() AND now() <> statement_timestamp() THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = 'rows of a dump cannot be restored into this table in a transaction',
            DETAIL = 'The dump would set the position of the last ID back.',
            HINT = format('Leave out this schema: pg_restore --exclude-schema=%s.', TG_TABLE_SCHEMA);
    ELSIF NEW.inserted_by <> pg_current_xact_id() THEN
        PERFORM snowflake_register(NULL);
        DELETE FROM snowflake_database;
        NEW.database := 0;
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION snowflake_guard_database() IS 'not to be called: notices rows that a dump or a subscription brings';
CREATE OR REPLACE TRIGGER guard BEFORE INSERT OR UPDATE OR DELETE ON snowflake_database FOR EACH ROW EXECUTE FUNCTION snowflake_guard_database();
ALTER TABLE snowflake_database ENABLE ALWAYS TRIGGER guard;

CREATE OR REPLACE FUNCTION snowflake_catalog_xmin() RETURNS xid
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN (SELECT t.xmin FROM pg_type t WHERE t.oid = 'snowflake_fields'::regtype);
COMMENT ON FUNCTION snowflake_catalog_xmin() IS 'not to be called: the transaction that has made the functions'' first type';

-- Why no ID can be issued, for snowflake_take() to raise: an error that a function within raises has all of them as its context.
DO $$
BEGIN
    IF to_regtype('snowflake_problem') IS NULL THEN
        CREATE TYPE snowflake_problem AS (code text, message text, detail text, hint text);
    END IF;
END
$$;
COMMENT ON TYPE snowflake_problem IS 'not to be used: an error';

-- NULL if the worker ID was set for this database, and not for one of which it is a copy.
CREATE OR REPLACE FUNCTION snowflake_problem_of_database() RETURNS snowflake_problem
    LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path FROM CURRENT AS $$
DECLARE
    owned record;
BEGIN
    SELECT d.*, d.xmin::text AS xmin INTO owned FROM snowflake_database d;
    IF snowflake_worker_id() IS NULL OR owned IS NULL THEN
        RETURN ROW('object_not_in_prerequisite_state', 'this database has no worker ID', 'snowflake_set_worker_id() has not been called.',
            format('As its owner, type SELECT snowflake_set_worker_id(n), with a number from 0 to %s that no other database and no other server has.',
                ~(-1::bigint << (snowflake_fields(snowflake_layout())).worker_bits)))::snowflake_problem;
    -- A transaction can have a snapshot from before.
    ELSIF owned.database = 0 OR snowflake_registration() IS NULL THEN
        RETURN ROW('object_not_in_prerequisite_state', 'rows of a dump were restored into this database', 'They may have set the position of its last ID back.',
            format('As its owner, call snowflake_set_worker_id(%s).', snowflake_worker_id()))::snowflake_problem;
    ELSIF owned.database <> (SELECT oid FROM pg_database WHERE datname = current_database()) OR owned.relation <> 'snowflake_database'::regclass
        OR owned.system_identifier <> (SELECT system_identifier FROM pg_control_system())
            AND (owned.inserted_by::xid::text <> owned.xmin OR owned.catalog_xmin = snowflake_catalog_xmin()) THEN
        RETURN ROW('object_not_in_prerequisite_state', 'this database is a copy of another one with the same worker ID',
            format('Worker %s was set in the database from which this one was restored or copied.', snowflake_worker_id()),
            'As its owner, call snowflake_set_worker_id(n) with another number, or with the same one if the other database issues no IDs any more.')::snowflake_problem;
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION snowflake_problem_of_database() IS 'not to be called: why this database may issue no IDs';

-- The last position. A standby cannot read the second sequence.
CREATE OR REPLACE FUNCTION snowflake_last() RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
    RETURN coalesce(CASE WHEN NOT pg_is_in_recovery() THEN pg_sequence_last_value('snowflake_high_water_mark'::regclass) END,
        pg_sequence_last_value('snowflake_position'::regclass));
COMMENT ON FUNCTION snowflake_last() IS 'not to be called: the position of the last ID';

-- Why no ID can be issued at this time.
CREATE OR REPLACE FUNCTION snowflake_problem_of_clock(ms bigint) RETURNS snowflake_problem
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path FROM CURRENT AS $$
DECLARE
    f snowflake_fields := snowflake_fields(snowflake_layout());
BEGIN
    IF ms < f.epoch THEN
        RETURN ROW('object_not_in_prerequisite_state', 'the server''s clock is before the epoch of the layout',
            format('The layout begins at %s.', snowflake_display_time(f.epoch)), 'Correct the clock.')::snowflake_problem;
    ELSIF ms > f.issues_until THEN
        RETURN ROW('program_limit_exceeded', 'reached the last timestamp of the layout',
            format('It is %s.', snowflake_display_time(f.epoch + f.tick_ms * f.last_tick)), 'If the clock is right, change the layout.')::snowflake_problem;
    END IF;
    RETURN ROW('configuration_limit_exceeded', 'the server''s clock is too far behind the last ID issued',
        format('The last ID has the time %s, and the clock shows %s.', snowflake_display_time(f.epoch + (snowflake_last() >> f.sequence_bits) * f.tick_ms),
            snowflake_display_time(ms)),
        'After a large batch, ask for the next one later. Else correct the clock: IDs are issued again when it is less than five seconds behind.')::snowflake_problem;
END
$$;
COMMENT ON FUNCTION snowflake_problem_of_clock(bigint) IS 'not to be called: why no ID is issued at this time';

-- The parts of snowflake_take(), which the planner inlines there. Their names were looked up when the script ran, so that it needs no
-- search_path of its own: setting one takes as long as the rest.

CREATE OR REPLACE FUNCTION snowflake_is_checked() RETURNS boolean
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
    RETURN coalesce(current_setting('hosted_snowflake.session', true) = 'snowflake_life'::regclass::oid::text || ' ' || snowflake_registration(), false);
COMMENT ON FUNCTION snowflake_is_checked() IS 'not to be called: whether snowflake_begin_session() was called; who sets this parameter skips the check for his own IDs';

-- Waits here, and not while others wait for the lock, if the owner alters a sequence.
CREATE OR REPLACE FUNCTION snowflake_is_writable(count bigint) RETURNS boolean
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
    RETURN CASE WHEN current_setting('transaction_read_only') = 'off' AND count BETWEEN 1 AND 4294967295
        THEN greatest(pg_sequence_last_value('snowflake_position'::regclass), pg_sequence_last_value('snowflake_high_water_mark'::regclass), 0) >= 0 END;
COMMENT ON FUNCTION snowflake_is_writable(bigint) IS 'not to be called: NULL in a transaction that only reads, and for a number of positions that cannot be taken';

CREATE OR REPLACE FUNCTION snowflake_unix_ms() RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
    RETURN floor(date_part('epoch', clock_timestamp()) * 1000)::bigint;
COMMENT ON FUNCTION snowflake_unix_ms() IS 'not to be called: the clock in Unix milliseconds';

-- The first position of the tick of a time.
CREATE OR REPLACE FUNCTION snowflake_tick(ms bigint) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN ((ms - (snowflake_fields(snowflake_layout())).epoch) / (snowflake_fields(snowflake_layout())).tick_ms)
        << (snowflake_fields(snowflake_layout())).sequence_bits;
COMMENT ON FUNCTION snowflake_tick(bigint) IS 'not to be called: the first position of the tick of a time';

CREATE OR REPLACE FUNCTION snowflake_set_last(place bigint) RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
    RETURN setval('snowflake_high_water_mark'::regclass, setval('snowflake_position'::regclass, place));
COMMENT ON FUNCTION snowflake_set_last(bigint) IS 'not to be called: sets the position of the last ID';

-- Under the lock: takes so many positions at a time of the clock, or none if that is NULL. The last one, or -1 if they would be more than
-- two seconds ahead. A tick begins at a number by chance, from 0 to 1.
CREATE OR REPLACE FUNCTION snowflake_move(count bigint, ms bigint, chance float8) RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
    RETURN CASE WHEN ms NOT BETWEEN (snowflake_fields(snowflake_layout())).epoch AND (snowflake_fields(snowflake_layout())).issues_until
            OR greatest(snowflake_last(), snowflake_tick(ms) + (1::bigint << (snowflake_fields(snowflake_layout())).sequence_bits)) > snowflake_tick(ms + 2000) - count
            THEN -1
        ELSE snowflake_set_last(CASE WHEN snowflake_last() >= snowflake_tick(ms) THEN snowflake_last() + count
            ELSE snowflake_tick(ms) + count - 1 + floor(chance * (1::bigint << (snowflake_fields(snowflake_layout())).sequence_bits)::float8)::bigint END) END;
COMMENT ON FUNCTION snowflake_move(bigint, bigint, float8) IS 'not to be called: takes positions, under the lock';

CREATE OR REPLACE FUNCTION snowflake_id_at(place bigint) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN ((place >> (snowflake_fields(snowflake_layout())).sequence_bits) << (snowflake_fields(snowflake_layout())).timestamp_shift)
        | ((place & ~(-1::bigint << (snowflake_fields(snowflake_layout())).sequence_bits)) << (snowflake_fields(snowflake_layout())).sequence_shift)
        | (snowflake_worker_id()::bigint << (snowflake_fields(snowflake_layout())).worker_shift)
        | (snowflake_datacenter_id()::bigint << (snowflake_fields(snowflake_layout())).datacenter_shift);
COMMENT ON FUNCTION snowflake_id_at(bigint) IS 'not to be called: the ID at a position';

-- Waits until so many positions are at most two seconds ahead, if that is at most three seconds; else NULL. NULL the first time, and then
-- what it has returned.
CREATE OR REPLACE FUNCTION snowflake_wait_for_clock(count bigint, ms bigint, since timestamptz) RETURNS timestamptz
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path FROM CURRENT AS $$
DECLARE
    f snowflake_fields := snowflake_fields(snowflake_layout());
    tick bigint := 1::bigint << f.sequence_bits;
    missing numeric := greatest(snowflake_last(), snowflake_tick(ms) + tick)::numeric + count - snowflake_tick(ms + 2000);
    missing_ms numeric := ceil(missing / tick) * f.tick_ms;
BEGIN
    IF ms NOT BETWEEN f.epoch AND f.issues_until OR missing_ms > 3000 OR clock_timestamp() > since + interval '10 seconds' THEN
        RETURN NULL;
    END IF;
    PERFORM pg_sleep((greatest(least(missing_ms, 100), 1) / 1000)::float8);
    RETURN coalesce(since, clock_timestamp());
END
$$;
COMMENT ON FUNCTION snowflake_wait_for_clock(bigint, bigint, timestamptz) IS 'not to be called: waits for the clock';

-- Continues above a time, or above an ID. Both are positions only under the lock, since the layout may be set before. The lock is given back
-- as in snowflake_take().
CREATE OR REPLACE FUNCTION snowflake_raise(ms bigint, past bigint) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path FROM CURRENT AS $$
DECLARE
    f snowflake_fields;
BEGIN
    LOCK TABLE snowflake_lock IN SHARE UPDATE EXCLUSIVE MODE;
    f := snowflake_fields(snowflake_layout());
    PERFORM snowflake_set_last(greatest(snowflake_last(), snowflake_tick(ms),
        ((past >> f.timestamp_shift) << f.sequence_bits) | ~(-1::bigint << f.sequence_bits)));
    RAISE SQLSTATE 'SN000';
EXCEPTION WHEN SQLSTATE 'SN000' THEN
    RETURN;
END
$$;
COMMENT ON FUNCTION snowflake_raise(bigint, bigint) IS 'not to be called: continues above a time, or above an ID';

-- Before the first ID of a session, with the rights of snowflake_take(): whose the worker ID is, and whether the server has begun anew.
-- NULL, or why no ID can be issued.
CREATE OR REPLACE FUNCTION snowflake_begin_session() RETURNS snowflake_problem
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path FROM CURRENT AS $$
DECLARE
    f snowflake_fields := snowflake_fields(snowflake_layout());
    problem snowflake_problem := snowflake_problem_of_database();
    registration text := snowflake_registration();
    -- Statistics begin anew after a crash, in which the postmaster remains.
    life bigint := (extract(epoch FROM greatest(pg_postmaster_start_time(), (SELECT stats_reset FROM pg_stat_bgwriter))) * 1000000)::bigint;
    ms bigint := snowflake_unix_ms();
BEGIN
    IF problem.message IS NOT NULL THEN
        RETURN problem;
    ELSIF ms NOT BETWEEN f.epoch AND f.issues_until THEN
        RETURN snowflake_problem_of_clock(ms);
    END IF;
    -- setval() looks them up once in a session.
    PERFORM pg_sequence_parameters('snowflake_position'::regclass), pg_sequence_parameters('snowflake_high_water_mark'::regclass);
    IF pg_sequence_last_value('snowflake_life'::regclass) IS DISTINCT FROM life THEN
        -- First the position: after a crash in between, it is raised once more. No ID was further ahead of the clock.
        PERFORM snowflake_raise(ms + 2000, NULL), setval('snowflake_life'::regclass, life);
    END IF;
    PERFORM set_config('hosted_snowflake.session', 'snowflake_life'::regclass::oid::text || ' ' || registration, false);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION snowflake_begin_session() IS 'not to be called: what is checked before the first ID of a session';

-- Takes so many positions, and returns the last ID. It names everything with its schema.
--
-- The lock cannot outlive the block: whatever ends it, rolls its subtransaction back, and releases the lock. A sequence is not rolled back,
-- and variables are not. So a call that succeeds ends the block by an error, too. Nobody waits for the lock until a transaction has ended.
CREATE OR REPLACE FUNCTION snowflake_take(count bigint) RETURNS bigint
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER AS $$
DECLARE
    is_checked pg_catalog.bool := snowflake_is_checked();
    has_lock pg_catalog.bool := false;
    is_queued pg_catalog.bool := false;
    queues_from pg_catalog.timestamptz;
    tries pg_catalog.int4 := 0;
    ms pg_catalog.int8;
    taken pg_catalog.int8;
    id pg_catalog.int8;
    waiting pg_catalog.timestamptz;
    problem snowflake_problem;
BEGIN
    IF snowflake_is_writable(count) IS NULL THEN
        IF pg_catalog.pg_is_in_recovery() THEN
            RAISE EXCEPTION USING ERRCODE = 'read_only_sql_transaction', MESSAGE = 'cannot issue IDs during recovery';
        ELSIF pg_catalog.current_setting('transaction_read_only') OPERATOR(pg_catalog.=) 'on' THEN
            RAISE EXCEPTION USING ERRCODE = 'read_only_sql_transaction', MESSAGE = 'cannot issue IDs in a read-only transaction';
        END IF;
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'count must be between 1 and 4294967295',
            DETAIL = pg_catalog.concat('The count is ', count, '.');
    END IF;
    LOOP
        BEGIN
            -- The first time in a session without the lock, and taking nothing: what has to be looked up in catalogs can wait there.
            IF NOT is_checked THEN
                LOCK TABLE snowflake_lock IN ACCESS SHARE MODE;
            ELSIF queues_from OPERATOR(pg_catalog.<) pg_catalog.clock_timestamp() THEN
                is_queued := true;
                LOCK TABLE snowflake_lock IN SHARE UPDATE EXCLUSIVE MODE;
            ELSE
                LOCK TABLE snowflake_lock IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
            END IF;
            has_lock := true;
            -- Again: the worker may have been set while this waited.
            is_checked := is_checked AND snowflake_is_checked();
            ms := CASE WHEN is_checked THEN snowflake_unix_ms() END;
            taken := snowflake_move(count, ms, pg_catalog.random());
            id := snowflake_id_at(taken);
            RAISE SQLSTATE 'SN000';
        EXCEPTION
            WHEN SQLSTATE 'SN000' THEN
            WHEN lock_not_available THEN
                IF has_lock OR is_queued OR NOT is_checked THEN
                    RAISE;
                END IF;
                -- A second later: sessions that queue are slower, as each has to be woken up with the lock.
                queues_from := coalesce(queues_from, pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) '1 second'::pg_catalog.interval);
                tries := tries OPERATOR(pg_catalog.+) 1;
                PERFORM pg_catalog.pg_sleep(CASE WHEN tries OPERATOR(pg_catalog.>) 3 THEN 0.001 ELSE 0 END);
                CONTINUE;
        END;
        has_lock := false;
        IF is_checked AND taken OPERATOR(pg_catalog.>=) 0 THEN
            RETURN id;
        ELSIF is_checked THEN
            waiting := snowflake_wait_for_clock(count, ms, waiting);
            problem := CASE WHEN waiting IS NULL THEN snowflake_problem_of_clock(ms) END;
        ELSE
            problem := snowflake_begin_session();
            is_checked := true;
        END IF;
        IF problem.message IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = problem.code, MESSAGE = problem.message, DETAIL = problem.detail, HINT = problem.hint;
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION snowflake_take(bigint) IS 'not to be called: takes a number of adjacent positions, and returns the last ID';

CREATE OR REPLACE FUNCTION snowflake_nextval() RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
    RETURN snowflake_take(1::bigint);
COMMENT ON FUNCTION snowflake_nextval() IS 'next Snowflake ID';

CREATE OR REPLACE FUNCTION snowflake_id() RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
    RETURN snowflake_take(1::bigint);
COMMENT ON FUNCTION snowflake_id() IS 'next Snowflake ID: snowflake_nextval() by another name, for tools that take "nextval" in a default for a sequence';

CREATE OR REPLACE FUNCTION snowflake_nextval_tagged(tag bigint) RETURNS bigint
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path FROM CURRENT AS $$
DECLARE
    layout CONSTANT text := snowflake_layout();
    f CONSTANT snowflake_fields := snowflake_fields(layout);
    bits bigint;
    id bigint;
BEGIN
    IF f.tag_bits = 0 THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = 'the layout has no tag',
            DETAIL = format('The layout is %s.', f.text), HINT = 'Choose a layout with a field such as h8, or call snowflake_nextval().';
    END IF;
    bits := snowflake_place('tag', tag, f.tag_bits, f.tag_shift, f);
    id := snowflake_take(1::bigint);
    -- If the layout was set while this waited, once more.
    RETURN CASE WHEN snowflake_layout() = layout THEN id | bits ELSE snowflake_nextval_tagged(tag) END;
END
$$;
COMMENT ON FUNCTION snowflake_nextval_tagged(bigint) IS 'next Snowflake ID, with a number of the application';

CREATE OR REPLACE FUNCTION snowflake_nextvals(count integer) RETURNS SETOF bigint
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE ROWS 100 SET search_path FROM CURRENT AS $$
DECLARE
    layout CONSTANT text := snowflake_layout();
    f CONSTANT snowflake_fields := snowflake_fields(layout);
    mask CONSTANT bigint := ~(-1::bigint << f.sequence_bits);
    last bigint;
    -- What all IDs of this database have.
    fixed bigint;
    position bigint;
BEGIN
    IF count NOT BETWEEN 1 AND 1000000 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'count must be between 1 and 1000000',
            DETAIL = format('The count is %s.', count);
    END IF;
    last := snowflake_take(count::bigint);
    IF snowflake_layout() <> layout THEN
        -- It was set while this waited.
        RETURN QUERY SELECT snowflake_nextvals(count);
        RETURN;
    END IF;
    fixed := last & ((1::bigint << f.timestamp_shift) - 1) & ~(mask << f.sequence_shift);
    position := ((last >> f.timestamp_shift) << f.sequence_bits) | ((last >> f.sequence_shift) & mask);
    RETURN QUERY SELECT fixed | ((p >> f.sequence_bits) << f.timestamp_shift) | ((p & mask) << f.sequence_shift)
        FROM generate_series(position - count + 1, position) p;
END
$$;
COMMENT ON FUNCTION snowflake_nextvals(integer) IS 'next 1 to 1,000,000 Snowflake IDs, in ascending order';

CREATE OR REPLACE FUNCTION snowflake_nextblock(count integer, OUT first bigint, OUT last bigint)
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path FROM CURRENT AS $$
DECLARE
    layout CONSTANT text := snowflake_layout();
    f CONSTANT snowflake_fields := snowflake_fields(layout);
    most bigint := 1::bigint << f.sequence_bits;
    taken bigint;
BEGIN
    IF f.sequence_shift > 0 OR f.sequence_bits = 0 AND f.timestamp_shift > 0 THEN
        RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = 'IDs of this layout are not adjacent',
            DETAIL = format('The sequence is not the lowest field of "%s".', f.text), HINT = 'Use snowflake_nextvals(count).';
    ELSIF count NOT BETWEEN 1 AND most THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('count must be between 1 and %s', most),
            DETAIL = format('The count is %s, and a tick of the layout has %s IDs.', count, most),
            HINT = 'For more IDs, take more than one block, or use snowflake_nextvals(count).';
    END IF;
    -- Among so many there is a block that the end of a tick does not divide.
    taken := snowflake_take(2::bigint * count - 1);
    IF snowflake_layout() <> layout THEN
        -- It was set while this waited.
        SELECT * INTO first, last FROM snowflake_nextblock(count);
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
COMMENT ON FUNCTION snowflake_nextblock(integer) IS 'first and last of so many adjacent Snowflake IDs of one tick';

CREATE OR REPLACE FUNCTION snowflake_lastval() RETURNS bigint
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    taken bigint;
BEGIN
    taken := snowflake_id_at(currval('snowflake_position'::regclass));
    -- Of a block, not all that was taken.
    RETURN coalesce(substring(current_setting('hosted_snowflake.block', true) FROM '^' || taken || ' ([0-9]+)$')::bigint, taken);
EXCEPTION WHEN object_not_in_prerequisite_state THEN
    RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = 'snowflake_lastval is not yet defined in this session';
END
$$;
COMMENT ON FUNCTION snowflake_lastval() IS 'last Snowflake ID that this session has taken; without its tag';

CREATE OR REPLACE FUNCTION snowflake_fill() RETURNS trigger
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path FROM CURRENT AS $$
DECLARE
    is_missing boolean;
BEGIN
    IF TG_WHEN <> 'BEFORE' OR TG_LEVEL <> 'ROW' OR TG_OP <> 'INSERT' OR TG_NARGS <> 1 THEN
        RAISE EXCEPTION USING ERRCODE = 'trigger_protocol_violated',
            MESSAGE = 'function "snowflake_fill" must be fired BEFORE INSERT FOR EACH ROW, with the name of one column';
    ELSIF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = TG_RELID AND attname = TG_ARGV[0] AND attnum > 0 AND NOT attisdropped) THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_column', MESSAGE = format('column "%s" of relation "%s" does not exist', TG_ARGV[0], TG_TABLE_NAME);
    END IF;
    IF pg_column_size(NEW) < 100000 THEN
        is_missing := to_jsonb(NEW) ->> TG_ARGV[0] IS NULL;
    ELSE
        -- A large value may be too large for JSON.
        EXECUTE format('SELECT ($1).%I IS NULL', TG_ARGV[0]) INTO is_missing USING NEW;
    END IF;
    IF is_missing THEN
        NEW := jsonb_populate_record(NEW, jsonb_build_object(TG_ARGV[0], snowflake_take(1::bigint)));
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION snowflake_fill() IS 'trigger BEFORE INSERT: gives a row an ID where the named column is NULL';

-- What the extension alone can do. These are here for views and functions of a dump.

CREATE OR REPLACE FUNCTION snowflake_needs_extension(name text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path FROM CURRENT AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('%s needs the extension snowflake_pg', name),
        DETAIL = 'This database has its functions in plain SQL.';
END
$$;
COMMENT ON FUNCTION snowflake_needs_extension(text) IS 'not to be called: the error of a function that only the extension has';

CREATE OR REPLACE FUNCTION snowflake_horizon() RETURNS bigint LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS
    'BEGIN PERFORM snowflake_needs_extension(''snowflake_horizon()''); END';
CREATE OR REPLACE FUNCTION snowflake_poll(source anyelement, after bigint, max_rows integer DEFAULT 1000, key name DEFAULT NULL) RETURNS SETOF anyelement
    LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS 'BEGIN PERFORM snowflake_needs_extension(''snowflake_poll()''); END';
CREATE OR REPLACE FUNCTION snowflake_encrypt(id bigint, key bytea) RETURNS bigint LANGUAGE plpgsql IMMUTABLE STRICT SET search_path FROM CURRENT AS
    'BEGIN PERFORM snowflake_needs_extension(''snowflake_encrypt()''); END';
CREATE OR REPLACE FUNCTION snowflake_decrypt(id bigint, key bytea) RETURNS bigint LANGUAGE plpgsql IMMUTABLE STRICT SET search_path FROM CURRENT AS
    'BEGIN PERFORM snowflake_needs_extension(''snowflake_decrypt()''); END';
COMMENT ON FUNCTION snowflake_horizon() IS 'an error: only the extension has it';
COMMENT ON FUNCTION snowflake_poll(anyelement, bigint, integer, name) IS 'an error: only the extension has it';
COMMENT ON FUNCTION snowflake_encrypt(bigint, bytea) IS 'an error: only the extension has it';
COMMENT ON FUNCTION snowflake_decrypt(bigint, bytea) IS 'an error: only the extension has it';

-- Monitoring -----------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION snowflake_get_status(
        OUT state text, OUT problem text, OUT worker_id integer, OUT datacenter_id integer, OUT layout text, OUT usable_until timestamptz,
        OUT last_issued_at timestamptz, OUT lead interval, OUT version text)
    LANGUAGE plpgsql STABLE PARALLEL UNSAFE SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    f snowflake_fields := snowflake_fields(snowflake_layout());
    last bigint := snowflake_last();
    found snowflake_problem := snowflake_problem_of_database();
    ms bigint := snowflake_unix_ms();
BEGIN
    worker_id := snowflake_worker_id();
    datacenter_id := CASE WHEN f.datacenter_bits > 0 THEN snowflake_datacenter_id() END;
    layout := format('%s (%s)', snowflake_layout(), f.text);
    usable_until := snowflake_at(f.epoch + f.tick_ms * f.last_tick);
    last_issued_at := snowflake_at(f.epoch + f.tick_ms * (last >> f.sequence_bits));
    lead := greatest(last_issued_at - clock_timestamp(), interval '0');
    version := '0.2.0';
    IF found.message IS NULL AND (ms NOT BETWEEN f.epoch AND f.issues_until OR lead > interval '5 s') THEN
        found := snowflake_problem_of_clock(ms);
    END IF;
    problem := found.message;
    state := CASE WHEN found.code = 'configuration_limit_exceeded' THEN 'behind' WHEN problem IS NOT NULL THEN 'refused' WHEN last IS NULL THEN 'idle' ELSE 'ready' END;
END
$$;
COMMENT ON FUNCTION snowflake_get_status() IS 'not to be called: use the view snowflake_status';

CREATE OR REPLACE VIEW snowflake_status AS SELECT * FROM snowflake_get_status();
COMMENT ON VIEW snowflake_status IS 'one row: whether this database issues IDs, and which';
COMMENT ON COLUMN snowflake_status.state IS 'ready; idle before the first ID; refused or behind if no ID is issued';
COMMENT ON COLUMN snowflake_status.problem IS 'why no ID is issued; NULL if nothing is wrong';
COMMENT ON COLUMN snowflake_status.usable_until IS 'last timestamp of the layout';
COMMENT ON COLUMN snowflake_status.last_issued_at IS 'timestamp of the last ID, or after a start of the server, above which IDs continue';
COMMENT ON COLUMN snowflake_status.lead IS 'how far last_issued_at is ahead of the clock';
COMMENT ON COLUMN snowflake_status.version IS 'version of this script';
GRANT SELECT ON snowflake_status TO PUBLIC;

-- Administration: for the owner of the database ------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION snowflake_set_worker_id(worker_id integer, datacenter_id integer DEFAULT 0) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path FROM CURRENT AS $$
DECLARE
    f snowflake_fields := snowflake_fields(snowflake_layout());
BEGIN
    IF worker_id IS NULL OR datacenter_id IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'worker_id and datacenter_id must not be NULL';
    END IF;
    PERFORM snowflake_place('worker_id', worker_id::bigint, f.worker_bits, f.worker_shift, f),
        snowflake_place('datacenter_id', datacenter_id::bigint, f.datacenter_bits, f.datacenter_shift, f);
    PERFORM snowflake_register(pg_current_xact_id()::text);
    DELETE FROM snowflake_database;
    INSERT INTO snowflake_database (system_identifier, database, relation, inserted_by, catalog_xmin, version)
        SELECT system_identifier, (SELECT oid FROM pg_database WHERE datname = current_database()), 'snowflake_database'::regclass, pg_current_xact_id(),
            snowflake_catalog_xmin(), '0.2.0' FROM pg_control_system();
    EXECUTE format('CREATE OR REPLACE FUNCTION snowflake_worker_id() RETURNS integer LANGUAGE sql STABLE PARALLEL SAFE RETURN %s', worker_id);
    EXECUTE format('CREATE OR REPLACE FUNCTION snowflake_datacenter_id() RETURNS integer LANGUAGE sql STABLE PARALLEL SAFE RETURN %s', datacenter_id);
    -- Another database may have issued IDs of this worker up to now. Before the first ID, snowflake_begin_session() does this.
    IF snowflake_last() IS NOT NULL THEN
        PERFORM snowflake_raise(snowflake_unix_ms() + 2000, NULL);
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_set_worker_id(integer, integer) IS
    'sets the worker ID of this database, which no other database and no other server may have; for its owner';

CREATE OR REPLACE FUNCTION snowflake_set_layout(layout text) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path FROM CURRENT AS $$
DECLARE
    f snowflake_fields := snowflake_fields(layout);
BEGIN
    -- Against calls for IDs, until the end of the transaction.
    LOCK TABLE snowflake_lock IN SHARE UPDATE EXCLUSIVE MODE;
    IF snowflake_unix_ms() NOT BETWEEN f.epoch AND f.issues_until THEN
        PERFORM snowflake_refuse_time(clock_timestamp(), f);
    ELSIF f.least_id < 0 OR NOT f.sorts_by_time THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'IDs of this layout can be decoded but not issued',
            DETAIL = format('"%s" %s.', f.text, CASE WHEN f.sorts_by_time THEN 'has 64 bits, and an ID that is issued has at most 63'
                ELSE 'does not have the timestamp as its highest field' END),
            HINT = 'Choose another layout.';
    ELSIF f.text <> (snowflake_fields(snowflake_layout())).text AND snowflake_last() IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = 'this database has issued IDs of another layout',
            DETAIL = format('Its layout is %s.', (snowflake_fields(snowflake_layout())).text),
            HINT = 'Keep it: IDs of the new layout could equal old ones.';
    ELSIF snowflake_worker_id() NOT BETWEEN 0 AND ~(-1::bigint << f.worker_bits) OR snowflake_datacenter_id() NOT BETWEEN 0 AND ~(-1::bigint << f.datacenter_bits) THEN
        RAISE EXCEPTION USING ERRCODE = 'numeric_value_out_of_range', MESSAGE = 'worker_id or datacenter_id does not fit the layout',
            DETAIL = format('They are %s and %s.', snowflake_worker_id(), snowflake_datacenter_id()), HINT = 'Call snowflake_set_worker_id() first.';
    END IF;
    EXECUTE format('CREATE OR REPLACE FUNCTION snowflake_layout() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE RETURN %L::text', layout);
END
$$;
COMMENT ON FUNCTION snowflake_set_layout(text) IS 'sets the layout of this database, before its first ID; for its owner';

CREATE OR REPLACE FUNCTION snowflake_advance(past bigint, force boolean DEFAULT false) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path FROM CURRENT AS $$
BEGIN
    IF snowflake_timestamp(past) > clock_timestamp() + interval '1 hour' AND NOT force THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'the ID is too far ahead of the clock',
            DETAIL = format('Its time is %s.', snowflake_timestamp(past)),
            HINT = 'No ID is issued until the clock has come within five seconds. To advance all the same, call snowflake_advance(past, force => true).';
    END IF;
    PERFORM snowflake_raise(NULL, past);
END
$$;
COMMENT ON FUNCTION snowflake_advance(bigint, boolean) IS 'makes all new IDs greater than past; for the owner of the database';

-- Some functions are for the owner. Before there is a worker, everybody gets the others, and nobody has what default privileges give;
-- later, what the owner has granted and revoked remains.
DO $$
DECLARE
    is_new boolean := NOT EXISTS (SELECT FROM snowflake_database);
    object record;
BEGIN
    FOR object IN
        WITH functions AS (
            SELECT oid::regprocedure::text AS name, proowner, proacl,
                proname ~ '_(guard_database|problem_of_database|problem_of_clock|begin_session|last|set_last|move|raise|register|set_worker_id|set_layout|advance)$' AS is_for_owner
            FROM pg_proc WHERE pronamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'snowflake_life'::regclass) AND proname LIKE 'snowflake%')
        SELECT format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', name) AS command FROM functions WHERE is_for_owner
        UNION ALL
        SELECT format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC', name) FROM functions WHERE NOT is_for_owner AND is_new
        UNION ALL
        SELECT format('REVOKE ALL ON %s %s FROM %s', kind, name, grantee::regrole) FROM (
            SELECT CASE relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind, oid::regclass::text AS name, relowner AS owner, relacl AS acl
            FROM pg_class WHERE oid IN ('snowflake_position'::regclass, 'snowflake_high_water_mark'::regclass, 'snowflake_life'::regclass, 'snowflake_database'::regclass,
                'snowflake_lock'::regclass)
            UNION ALL
            SELECT 'FUNCTION', name, proowner, proacl FROM functions WHERE is_for_owner) objects
        CROSS JOIN LATERAL aclexplode(acl) WHERE grantee NOT IN (owner, 0) AND is_new
    LOOP
        EXECUTE object.command;
    END LOOP;
END
$$;

$script$;
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    IF EXISTS (SELECT FROM pg_extension WHERE extname = 'snowflake_pg' AND extnamespace::regnamespace::text = schema) THEN
        -- A migration can carry the script to servers of both kinds.
        RAISE NOTICE USING MESSAGE = 'the extension snowflake_pg has these functions, skipping';
        PERFORM set_config('search_path', before, true);
        RETURN;
    ELSIF EXISTS (SELECT FROM pg_extension WHERE extname = 'snowflake_pg') THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('the extension snowflake_pg has these functions in schema %s', (SELECT extnamespace::regnamespace FROM pg_extension WHERE extname = 'snowflake_pg')),
            HINT = format('Use those, or move them: ALTER EXTENSION snowflake_pg SET SCHEMA %s.', coalesce(schema, 'ids'));
    ELSIF schema IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_schema_name', MESSAGE = 'there is no current schema', HINT = 'Set search_path to a schema, such as ids.';
    ELSIF schema ~ E'[''\\\\$%]' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_schema_name', MESSAGE = format('the name of schema %s has a quote, a dollar sign, a percent sign or a backslash', schema),
            HINT = 'Set search_path to another schema, such as ids.';
    END IF;
    -- Whoever can create or drop objects there could run code with the rights of the owner.
    SELECT nspowner, CASE
            WHEN nspowner <> installer AND NOT (nspowner = 'pg_database_owner'::regrole AND EXISTS (
                SELECT FROM pg_database WHERE datname = current_database() AND datdba = installer)) THEN format('It belongs to %s.', nspowner::regrole)
            WHEN others.grantee IS NOT NULL THEN format('%s can create objects in it.', CASE others.grantee WHEN 0 THEN 'PUBLIC' ELSE others.grantee::regrole::text END)
            WHEN object.name IS NOT NULL THEN format('%s belongs to %s.', object.name, object.owner::regrole) END AS reason
        INTO unsafe
        FROM pg_namespace
        LEFT JOIN LATERAL (SELECT grantee FROM aclexplode(nspacl) WHERE privilege_type = 'CREATE' AND grantee NOT IN (nspowner, installer) LIMIT 1) others ON true
        LEFT JOIN LATERAL (
            SELECT p.oid::regprocedure::text AS name, proowner AS owner FROM pg_proc p WHERE pronamespace = pg_namespace.oid AND proname LIKE 'snowflake%' AND proowner <> installer
            UNION ALL
            SELECT t.oid::regtype::text, typowner FROM pg_type t WHERE typnamespace = pg_namespace.oid AND typname LIKE 'snowflake%' AND typowner <> installer
            UNION ALL
            SELECT c.oid::regclass::text, relowner FROM pg_class c WHERE relnamespace = pg_namespace.oid AND relname LIKE 'snowflake%' AND relowner <> installer
            LIMIT 1) object ON true
        WHERE pg_namespace.oid = schema::regnamespace;
    IF unsafe.reason IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('schema %s must belong to %s alone', schema, quote_ident(current_user)),
            DETAIL = unsafe.reason, HINT = 'Set search_path to a schema of your own, in which nobody else can create objects; or run this as its owner.';
    END IF;
    SELECT relnamespace::regnamespace AS schema INTO unsafe FROM pg_class JOIN pg_roles r ON r.oid = relowner
        WHERE relname = 'snowflake_life' AND relkind = 'S' AND relpersistence <> 't' AND relnamespace <> schema::regnamespace
            AND (r.oid = installer OR rolsuper OR r.oid = (SELECT datdba FROM pg_database WHERE datname = current_database())) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('this database has these functions in schema %s', unsafe.schema),
            HINT = format('Set search_path to %s.', unsafe.schema);
    END IF;
    -- "already exists, skipping"
    PERFORM set_config('client_min_messages', 'warning', true), set_config('standard_conforming_strings', 'on', true);
    IF to_regtype(schema || '.snowflake') IS NULL THEN
        EXECUTE 'CREATE DOMAIN ' || schema || '.snowflake AS bigint';
        EXECUTE 'COMMENT ON DOMAIN ' || schema || '.snowflake IS ''a bigint; the extension has a type, whose values are strings in JSON''';
    END IF;
    EXECUTE regexp_replace(script, '[[:<:]]snowflake_(?!pg[[:>:]])', schema || '.snowflake_', 'g');
    PERFORM set_config('search_path', before, true), set_config('client_min_messages', messages, true),
        set_config('standard_conforming_strings', strings, true);
END
$install$;
