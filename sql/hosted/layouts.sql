-- Where the bits of an ID are: texts of layouts, layouts with a name, and the layout of this database.

DO $$
BEGIN
    IF to_regtype('ids.snowflake') IS NULL THEN
        CREATE DOMAIN ids.snowflake AS bigint;
    END IF;
    IF to_regtype('ids.snowflake_fields') IS NULL THEN
        CREATE TYPE ids.snowflake_fields AS (
            tick_ms bigint, epoch bigint, timestamp_bits integer, timestamp_shift integer, datacenter_bits integer,
            datacenter_shift integer, worker_bits integer, worker_shift integer, tag_bits integer, tag_shift integer,
            sequence_bits integer, sequence_shift integer, least_id bigint, greatest_id bigint, last_tick bigint,
            issues_until bigint, sorts_by_time boolean, text text);
    END IF;
END
$$;
COMMENT ON DOMAIN ids.snowflake IS 'a bigint; the extension has a type, whose values are strings in JSON';
COMMENT ON TYPE ids.snowflake_fields IS 'not to be used: where the fields of a layout are';

-- Constants, which the planner inlines.

CREATE OR REPLACE FUNCTION ids.snowflake_script_version() RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN '0.1.0';
COMMENT ON FUNCTION ids.snowflake_script_version() IS 'not to be called: version of this script';

CREATE OR REPLACE FUNCTION ids.snowflake_max_ahead_ms() RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN 2000::bigint;
COMMENT ON FUNCTION ids.snowflake_max_ahead_ms() IS
    'not to be called directly: how far IDs can be ahead of the clock, and how far ahead they begin after a start';

CREATE OR REPLACE FUNCTION ids.snowflake_max_wait_ms() RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN 3000::bigint;
COMMENT ON FUNCTION ids.snowflake_max_wait_ms() IS
    'not to be called directly: a call that would wait longer for the clock is refused';

CREATE OR REPLACE FUNCTION ids.snowflake_max_count() RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN 4294967295;
COMMENT ON FUNCTION ids.snowflake_max_count() IS 'not to be called: how many positions a call can take';

-- Layouts with a name. They never change, since indexes and generated columns name them.
CREATE OR REPLACE FUNCTION ids.snowflake_presets() RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN '{
        "flat": {"place": 1, "layout": "t41 w10 s12 unit=1ms epoch=1288834974657",
            "source": "snowflake_pg: twitter, with data center and worker as one number"},
        "twitter": {"place": 2, "layout": "t41 d5 w5 s12 unit=1ms epoch=1288834974657",
            "source": "twitter-archive/snowflake, IdWorker.scala"},
        "leaf": {"place": 3, "layout": "t41 w10 s12 unit=1ms epoch=1288834974657",
            "source": "Meituan-Dianping/Leaf, SnowflakeIDGenImpl.java"},
        "uid": {"place": 4, "layout": "t28 w22 s13 unit=1000ms epoch=1463673600000",
            "source": "baidu/uid-generator, DefaultUidGenerator.java and BitsAllocator.java"},
        "k8s": {"place": 5, "layout": "t28 w24 s11 unit=1000ms epoch=1631780048000",
            "source": "\"Snowflake: the algorithm explained and applied\", an article in Chinese of 2021-09-22"},
        "game": {"place": 6, "layout": "t31 w20 s12 unit=1000ms epoch=1704067200000",
            "source": "snowflake_pg: a million servers, each with 4096 IDs a second"},
        "js": {"place": 7, "layout": "t41 w6 s6 unit=1ms epoch=1704067200000",
            "source": "snowflake_pg: below 2^53, so exact as a number of JavaScript''s"},
        "pgedge": {"place": 8, "layout": "t41 w10 s12 unit=1ms epoch=1672531200000",
            "source": "pgEdge/snowflake, snowflake.c"},
        "pgactive": {"place": 9, "layout": "t40 w10 s14 unit=1ms epoch=1475796139634",
            "source": "aws/pgactive, src/pgactive_seq.c"},
        "pgdog": {"place": 10, "layout": "t41 w10 s12 unit=1ms epoch=1764184395000",
            "source": "pgdogdev/pgdog, pgdog/src/unique_id.rs"},
        "pgdog_compact": {"place": 11, "layout": "t41 w6 s6 unit=1ms epoch=1764184395000",
            "source": "pgdogdev/pgdog, pgdog/src/unique_id.rs, with unique_id_function = compact"},
        "clickhouse": {"place": 12, "layout": "t41 w10 s12 unit=1ms epoch=0",
            "source": "ClickHouse/ClickHouse, src/Functions/generateSnowflakeID.cpp"},
        "tsid": {"place": 13, "layout": "t42 w10 s12 unit=1ms epoch=1577836800000",
            "source": "vladmihalcea/hypersistence-tsid and f4b6a3/tsid-creator, with 10 bits for the node"},
        "sonyflake": {"place": 14, "layout": "t39 s8 w16 unit=10ms epoch=1409529600000",
            "source": "sony/sonyflake, sonyflake.go"},
        "instagram": {"place": 15, "layout": "t41 w13 s10 unit=1ms epoch=1314220021721",
            "source": "\"Sharding & IDs at Instagram\", instagram-engineering.com"},
        "discord": {"place": 16, "layout": "t42 d5 w5 s12 unit=1ms epoch=1420070400000",
            "source": "discord/discord-api-docs, Reference.md"},
        "mastodon": {"place": 17, "layout": "t48 s16 unit=1ms epoch=0",
            "source": "mastodon/mastodon, lib/mastodon/snowflake.rb"}
    }'::jsonb;
COMMENT ON FUNCTION ids.snowflake_presets() IS 'not to be called directly: use the view snowflake_layouts';

CREATE OR REPLACE FUNCTION ids.snowflake_preset(name text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN ids.snowflake_presets() -> lower(name COLLATE "C") ->> 'layout';
COMMENT ON FUNCTION ids.snowflake_preset(text) IS 'not to be called directly: the fields of a layout with a name';

-- A time from Unix milliseconds. Exact: the product of an interval is rounded to 53 bits, and both products here have
-- fewer.
CREATE OR REPLACE FUNCTION ids.snowflake_at(ms bigint) RETURNS timestamptz
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ('1970-01-01'::timestamp + interval '1 hour' * (ms / 3600000)::float8 + interval '1 millisecond'
        * (ms % 3600000)::float8) AT TIME ZONE 'UTC';
END
$$;
COMMENT ON FUNCTION ids.snowflake_at(bigint) IS 'not to be called directly: a time of Unix milliseconds';

-- A time as messages show it.
CREATE OR REPLACE FUNCTION ids.snowflake_display_time(ms bigint) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN CASE WHEN ms > 253402207200999 THEN ms || ' ms after 1970' ELSE
        to_char('1970-01-01'::timestamp + interval '1 hour' * (ms / 3600000)::float8 + interval '1 millisecond'
            * (ms % 3600000)::float8,
            CASE WHEN ms % 1000 = 0 THEN 'YYYY-MM-DD"T"HH24:MI:SS"Z"'
                WHEN ms % 100 = 0 THEN 'YYYY-MM-DD"T"HH24:MI:SS.FF1"Z"'
                WHEN ms % 10 = 0 THEN 'YYYY-MM-DD"T"HH24:MI:SS.FF2"Z"' ELSE 'YYYY-MM-DD"T"HH24:MI:SS.FF3"Z"' END) END;
COMMENT ON FUNCTION ids.snowflake_display_time(bigint) IS 'not to be called directly: a time in messages';

CREATE OR REPLACE FUNCTION ids.snowflake_display_unit(tick_ms bigint) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN CASE tick_ms WHEN 1000 THEN '1s' ELSE tick_ms || 'ms' END;
COMMENT ON FUNCTION ids.snowflake_display_unit(bigint) IS 'not to be called directly: the unit of a layout in messages';

CREATE OR REPLACE FUNCTION ids.snowflake_years(timestamp_bits integer, tick_ms bigint) RETURNS numeric
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (2::float8 ^ timestamp_bits::float8 * tick_ms::float8 / (365.2425 * 86400000)::float8)::numeric;
COMMENT ON FUNCTION ids.snowflake_years(integer, bigint) IS
    'not to be called directly: how long the timestamps of a layout last';

-- The milliseconds of a unit such as 10ms or 1s; NULL if it is none.
CREATE OR REPLACE FUNCTION ids.snowflake_unit_ms(unit text) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ms bigint;
BEGIN
    IF unit ~* '^[0-9]{1,9}m?s$' THEN
        ms := rtrim(unit, 'msMS')::bigint * CASE WHEN unit ~* 'ms$' THEN 1 ELSE 1000 END;
    END IF;
    RETURN CASE WHEN ms BETWEEN 1 AND 1000 THEN ms END;
END
$$;
COMMENT ON FUNCTION ids.snowflake_unit_ms(text) IS 'not to be called directly: the milliseconds of a unit';

-- The Unix milliseconds of an epoch, a number or a time with a zone; NULL if it is none. Checked before they are cast:
-- a subtransaction is refused in parallel queries. (No letter after a colon: tools take that for a parameter.)
CREATE OR REPLACE FUNCTION ids.snowflake_epoch_ms(epoch text) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- The end of the calendar of the extension, as a number and as a time.
    last_number CONSTANT bigint := 253402207200000;
    last_time CONSTANT bigint := 253402207200999;
    parts text[] := regexp_match(epoch,
        '^([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2})(?::([0-9]{2})([.][0-9]{1,3}0*)?)?'
        '(Z|([+-])([0-9]{2})(?::?([0-9]{2}))?)$', 'i');
    month timestamp;
    ms bigint;
BEGIN
    IF epoch ~ '^0*[0-9]{1,15}$' THEN
        ms := epoch::numeric;
        RETURN CASE WHEN ms <= last_number THEN ms END;
    ELSIF parts[1] BETWEEN '1969' AND '9999' AND parts[2] BETWEEN '01' AND '12' AND parts[4] <= '23'
        AND parts[5] <= '59' AND coalesce(parts[6], '0') <= '60' AND coalesce(parts[10], '0') <= '25'
        AND coalesce(parts[11], '0') <= '59' THEN
        month := make_timestamp(parts[1]::integer, parts[2]::integer, 1, parts[4]::integer, parts[5]::integer, 0);
        IF parts[3]::integer BETWEEN 1 AND extract(day FROM month + interval '1 month' - interval '1 day') THEN
            -- A leap second is the one before.
            ms := 1000 * (extract(epoch FROM month) + 86400 * (parts[3]::integer - 1)
                + (least(coalesce(parts[6], '0'), '59') || coalesce(parts[7], ''))::numeric
                - (coalesce(parts[9], '') || 1)::integer
                    * (3600 * coalesce(parts[10], '0')::integer + 60 * coalesce(parts[11], '0')::integer));
        END IF;
    END IF;
    RETURN CASE WHEN ms BETWEEN 0 AND last_time THEN ms END;
END
$$;
COMMENT ON FUNCTION ids.snowflake_epoch_ms(text) IS 'not to be called directly: the Unix milliseconds of an epoch';

-- Why a token is wrong, after these fields, this unit and this epoch; NULL if it is right.
CREATE OR REPLACE FUNCTION ids.snowflake_token_error(token text, fields text[], tick_ms bigint, epoch bigint)
    RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    letter text := lower(left(token, 1) COLLATE "C");
    most integer := CASE WHEN letter = 't' THEN 63 ELSE 31 END;
    reason text := CASE
        WHEN token ~* '^unit=' THEN CASE
            WHEN tick_ms IS NOT NULL THEN 'sets the unit a second time'
            WHEN ids.snowflake_unit_ms(substr(token, 6)) IS NULL
                THEN 'is not a unit: write whole milliseconds from unit=1ms to unit=1000ms, or unit=1s' END
        WHEN token ~* '^epoch=' THEN CASE
            WHEN epoch IS NOT NULL THEN 'sets the epoch a second time'
            WHEN ids.snowflake_epoch_ms(substr(token, 7)) IS NULL
                THEN 'is not an epoch: write Unix milliseconds or a time with a zone between the years 1970 and 9999, '
                    'such as epoch=2024-01-01T00:00:00Z' END
        WHEN letter IN ('t', 'd', 'w', 'h', 's') AND token ~ '^.[0-9]+$' THEN CASE
            WHEN length(token) > 9 OR substr(token, 2)::integer NOT BETWEEN 1 AND most
                THEN format('is not a width: the field %s has 1 to %s bits', letter, most)
            WHEN strpos(array_to_string(fields, ' '), letter) > 0 THEN format('sets the %s a second time',
                CASE letter WHEN 't' THEN 'timestamp' WHEN 'd' THEN 'data center' WHEN 'w' THEN 'worker'
                    WHEN 'h' THEN 'tag' ELSE 'sequence' END) END
        WHEN ids.snowflake_preset(token) IS NOT NULL THEN 'is the name of a layout, and can only be the first token'
        ELSE 'is neither the name of a layout nor a field such as t41, d5, w5, h8 or s12, nor unit= or epoch=' END;
BEGIN
    RETURN format('"%s" ', token) || reason;
END
$$;
COMMENT ON FUNCTION ids.snowflake_token_error(text, text[], bigint, bigint) IS
    'not to be called directly: why a part of a layout is wrong';

-- The parts of a layout's text, or why it is none.
CREATE OR REPLACE FUNCTION ids.snowflake_parse(layout text, OUT fields text[], OUT tick_ms bigint, OUT epoch bigint,
    OUT reason text)
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    tokens text[] := array_remove(regexp_split_to_array(layout, E'[ \t\n\f\r]+'), '');
    preset text := ids.snowflake_preset(tokens[1]);
    token text;
BEGIN
    fields := '{}';
    FOREACH token IN ARRAY CASE WHEN preset IS NULL THEN tokens ELSE tokens[2:] END LOOP
        reason := ids.snowflake_token_error(token, fields, tick_ms, epoch);
        IF reason IS NOT NULL THEN
            RETURN;
        ELSIF token ~* '^unit=' THEN
            tick_ms := ids.snowflake_unit_ms(substr(token, 6));
        ELSIF token ~* '^epoch=' THEN
            epoch := ids.snowflake_epoch_ms(substr(token, 7));
        ELSE
            fields := fields || (lower(left(token, 1) COLLATE "C") || substr(token, 2)::integer);
        END IF;
    END LOOP;
    IF fields = '{}' AND preset IS NULL THEN
        reason := 'A layout begins with a name or a field such as t41';
        RETURN;
    ELSIF fields = '{}' THEN
        fields := string_to_array(split_part(preset, ' unit', 1), ' ');
    END IF;
    preset := coalesce(preset, ids.snowflake_preset('flat'));
    tick_ms := coalesce(tick_ms, substring(preset FROM 'unit=([0-9]+)')::bigint);
    epoch := coalesce(epoch, split_part(preset, 'epoch=', 2)::bigint);
END
$$;
COMMENT ON FUNCTION ids.snowflake_parse(text) IS 'not to be called directly: the parts of a layout';

-- Each field at its place, from the lowest on. One that the layout lacks has no bits.
CREATE OR REPLACE FUNCTION ids.snowflake_arrange(fields text[]) RETURNS ids.snowflake_fields
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f ids.snowflake_fields;
    bits integer;
    sum integer := 0;
BEGIN
    f.timestamp_bits := 0; f.datacenter_bits := 0; f.worker_bits := 0; f.tag_bits := 0; f.sequence_bits := 0;
    f.timestamp_shift := 0; f.datacenter_shift := 0; f.worker_shift := 0; f.tag_shift := 0; f.sequence_shift := 0;
    FOR at IN REVERSE cardinality(fields)..1 LOOP
        bits := substr(fields[at], 2)::integer;
        CASE left(fields[at], 1)
            WHEN 't' THEN f.timestamp_bits := bits; f.timestamp_shift := sum;
            WHEN 'd' THEN f.datacenter_bits := bits; f.datacenter_shift := sum;
            WHEN 'w' THEN f.worker_bits := bits; f.worker_shift := sum;
            WHEN 'h' THEN f.tag_bits := bits; f.tag_shift := sum;
            WHEN 's' THEN f.sequence_bits := bits; f.sequence_shift := sum;
        END CASE;
        sum := sum + bits;
    END LOOP;
    RETURN f;
END
$$;
COMMENT ON FUNCTION ids.snowflake_arrange(text[]) IS
    'not to be called directly: where the fields of a layout are, before its unit and epoch are known';

-- Where the fields of a layout are. IMMUTABLE: with a constant, the planner calls it once.
CREATE OR REPLACE FUNCTION ids.snowflake_fields(layout text) RETURNS ids.snowflake_fields
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    parsed record := ids.snowflake_parse(layout);
    f ids.snowflake_fields := ids.snowflake_arrange(parsed.fields);
    sum integer := f.timestamp_bits + f.datacenter_bits + f.worker_bits + f.tag_bits + f.sequence_bits;
    text text := array_to_string(parsed.fields, ' ');
    reason text := CASE
        WHEN parsed.reason IS NOT NULL THEN parsed.reason
        WHEN f.timestamp_bits = 0 THEN format('"%s" has no timestamp: add a field such as t41', text)
        WHEN sum > 64 THEN format('"%s" has %s bits, and an ID has 64; its %s bits of %s last %s years', text, sum,
            f.timestamp_bits,
            ids.snowflake_display_unit(parsed.tick_ms), round(ids.snowflake_years(f.timestamp_bits, parsed.tick_ms), 1))
        WHEN parsed.epoch + parsed.tick_ms * 2::numeric ^ f.timestamp_bits > 9007199254740992
            THEN format('"t%s" of %s lasts %s years, and a layout can last until about the year 287000',
                f.timestamp_bits,
                ids.snowflake_display_unit(parsed.tick_ms),
                round(ids.snowflake_years(f.timestamp_bits, parsed.tick_ms))) END;
BEGIN
    IF reason IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('invalid layout: "%s"', layout),
            DETAIL = reason || '.', HINT = 'See the view snowflake_layouts.';
    END IF;
    f.tick_ms := parsed.tick_ms;
    f.epoch := parsed.epoch;
    f.least_id := CASE sum WHEN 64 THEN -9223372036854775808 ELSE 0 END;
    f.greatest_id := CASE WHEN sum >= 63 THEN 9223372036854775807 ELSE (1::bigint << sum) - 1 END;
    -- The last tick whose IDs are not negative.
    f.last_tick := least(~(-1::bigint << f.timestamp_bits), 9223372036854775807 >> f.timestamp_shift);
    -- The last Unix millisecond at which a call that waits can still be given IDs.
    f.issues_until := f.epoch + f.tick_ms * f.last_tick - ids.snowflake_max_ahead_ms() - ids.snowflake_max_wait_ms();
    f.sorts_by_time := f.timestamp_shift + f.timestamp_bits = sum;
    f.text := format('%s unit=%s epoch=%s', text, ids.snowflake_display_unit(f.tick_ms),
        ids.snowflake_display_time(f.epoch));
    RETURN f;
END
$$;
COMMENT ON FUNCTION ids.snowflake_fields(text) IS 'not to be called directly: where the fields of a layout are';

CREATE OR REPLACE VIEW ids.snowflake_layouts AS
    SELECT name, split_part((f).text, ' unit', 1) AS fields, interval '1 millisecond' * (f).tick_ms::float8 AS unit,
        ids.snowflake_at((f).epoch) AS epoch,
        ids.snowflake_at(last) AS usable_until,
        round(ids.snowflake_years((f).timestamp_bits, (f).tick_ms), 1)::float8 AS years,
        1::bigint << ((f).datacenter_bits + (f).worker_bits) AS workers,
        (1000::bigint << (f).sequence_bits) / (f).tick_ms AS max_ids_per_second,
        (f).sorts_by_time AND (f).least_id = 0
            AND clock_timestamp() BETWEEN ids.snowflake_at((f).epoch) AND ids.snowflake_at(last) AS can_issue,
        preset ->> 'source' AS source
    FROM jsonb_each(ids.snowflake_presets()) presets(name, preset)
    CROSS JOIN LATERAL (SELECT ids.snowflake_fields(name) AS f) of_preset
    CROSS JOIN LATERAL (SELECT (f).epoch + (f).tick_ms * ~(-1::bigint << (f).timestamp_bits) AS last) of_last
    ORDER BY (preset ->> 'place')::integer;
COMMENT ON VIEW ids.snowflake_layouts IS 'one row for each named layout';
GRANT SELECT ON ids.snowflake_layouts TO PUBLIC;

-- The configuration: snowflake_set_layout() and snowflake_set_worker_id() replace these functions. STABLE, so that the
-- planner inlines them, and plans are made anew: it would only evaluate them if they were IMMUTABLE.
DO $$
BEGIN
    IF to_regprocedure('ids.snowflake_layout()') IS NULL THEN
        CREATE FUNCTION ids.snowflake_layout() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE RETURN 'flat'::text;
        CREATE FUNCTION ids.snowflake_worker_id() RETURNS integer
            LANGUAGE sql STABLE PARALLEL SAFE RETURN NULL::integer;
        CREATE FUNCTION ids.snowflake_datacenter_id() RETURNS integer LANGUAGE sql STABLE PARALLEL SAFE RETURN 0;
    END IF;
    IF to_regprocedure('ids.snowflake_registration()') IS NULL THEN
        CREATE FUNCTION ids.snowflake_registration() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE RETURN '0'::text;
    END IF;
END
$$;
COMMENT ON FUNCTION ids.snowflake_layout() IS 'layout of this database, from snowflake_set_layout()';
COMMENT ON FUNCTION ids.snowflake_worker_id() IS 'worker ID of this database, from snowflake_set_worker_id()';
COMMENT ON FUNCTION ids.snowflake_datacenter_id() IS 'data center of this database, from snowflake_set_worker_id()';
COMMENT ON FUNCTION ids.snowflake_registration() IS
    'not to be called: which call of snowflake_set_worker_id() is in force, and in PGlite when its directory was made; '
    'NULL after rows of a dump were restored';

CREATE OR REPLACE FUNCTION ids.snowflake_own_fields() RETURNS ids.snowflake_fields
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN ids.snowflake_fields(ids.snowflake_layout());
COMMENT ON FUNCTION ids.snowflake_own_fields() IS
    'not to be called directly: where the fields of this database''s layout are';
