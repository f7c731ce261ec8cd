-- Partitions by time.

-- The partitions of a table and their IDs, NULL for a default partition.
CREATE OR REPLACE FUNCTION ids.snowflake_ranges(parent regclass, OUT partition regclass, OUT id_range int8range) RETURNS SETOF record
    LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    key text := pg_get_partkeydef(parent);
    name text := (SELECT relname FROM pg_class WHERE oid = parent);
BEGIN
    IF key IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'wrong_object_type', MESSAGE = format('"%s" is not a partitioned table', name),
            HINT = 'Create it with PARTITION BY RANGE (id).';
    ELSIF NOT EXISTS (SELECT FROM pg_partitioned_table JOIN pg_attribute ON attrelid = partrelid AND attnum = partattrs[0] JOIN pg_type t ON t.oid = atttypid
        WHERE partrelid = parent AND partstrat = 'r' AND partnatts = 1 AND 'bigint'::regtype IN (t.oid, typbasetype)) THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_object_definition', MESSAGE = format('"%s" is not partitioned by range of a single bigint column', name),
            DETAIL = format('Its partition key is %s.', key), HINT = 'Create it with PARTITION BY RANGE (id).';
    END IF;
    RETURN QUERY
        SELECT c.oid::regclass, CASE WHEN bound IS NULL THEN NULL ELSE int8range(bound[1]::bigint, bound[2]::bigint) END
        FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid
        CROSS JOIN LATERAL (SELECT regexp_match(pg_get_expr(relpartbound, c.oid), '^FOR VALUES FROM [(](?:''(-?[0-9]+)''|MINVALUE)[)] TO [(](?:''(-?[0-9]+)''|MAXVALUE)[)]$') AS bound) b
        WHERE inhparent = parent ORDER BY bound IS NULL, lower(int8range(bound[1]::bigint, bound[2]::bigint)) NULLS FIRST;
END
$$;
COMMENT ON FUNCTION ids.snowflake_ranges(regclass) IS 'not to be called: the partitions of a table and their IDs';

-- When the period of a time begins, or the nth one after it: of the calendar from January 2000 on, or of this length from Monday
-- 2001-01-01 on, in UTC.
CREATE OR REPLACE FUNCTION ids.snowflake_period(every interval, at timestamptz, nth integer) RETURNS timestamptz
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    utc timestamp := at AT TIME ZONE 'UTC';
    months integer := extract(year FROM every) * 12 + extract(month FROM every);
    seconds bigint := extract(epoch FROM every);
    month integer := (extract(year FROM utc) - 2000) * 12 + extract(month FROM utc) - 1;
BEGIN
    IF months > 0 THEN
        RETURN ('2000-01-01'::timestamp + make_interval(months => (floor(month::float8 / months)::integer + nth) * months)) AT TIME ZONE 'UTC';
    END IF;
    RETURN ids.snowflake_at(1000 * (978307200 + seconds * (floor((floor(extract(epoch FROM at)) - 978307200) / seconds)::bigint + nth)));
END
$$;
COMMENT ON FUNCTION ids.snowflake_period(interval, timestamptz, integer) IS 'not to be called: when a period begins';

DO $$
BEGIN
    IF to_regtype('ids.snowflake_partition') IS NULL THEN
        CREATE TYPE ids.snowflake_partition AS (partition regclass, since timestamptz, until timestamptz, rows bigint, bytes bigint);
        CREATE TYPE ids.snowflake_old_partition AS (command text, partition text, since timestamptz, until timestamptz, rows bigint, bytes bigint);
    END IF;
END
$$;
COMMENT ON TYPE ids.snowflake_partition IS 'row of snowflake_partitions() and snowflake_create_partitions()';
COMMENT ON TYPE ids.snowflake_old_partition IS 'row of snowflake_drop_partitions()';

CREATE OR REPLACE FUNCTION ids.snowflake_partitions(relation regclass, layout text) RETURNS SETOF ids.snowflake_partition
    LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE ROWS 100 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f ids.snowflake_fields := ids.snowflake_fields(layout);
BEGIN
    PERFORM ids.snowflake_must_sort(f);
    RETURN QUERY
        SELECT r.partition,
            CASE WHEN id_range IS NULL THEN NULL WHEN coalesce(lower(id_range), 0) <= 0 THEN '-infinity' WHEN lower(id_range) > f.greatest_id THEN 'infinity'
                ELSE ids.snowflake_time_of(lower(id_range), f) END,
            CASE WHEN id_range IS NULL THEN NULL WHEN upper_inf(id_range) OR upper(id_range) > f.greatest_id THEN 'infinity'
                ELSE ids.snowflake_time_of(upper(id_range) - 1, f) + interval '1 millisecond' * f.tick_ms::float8 END,
            (SELECT sum(reltuples)::bigint FROM pg_partition_tree(r.partition) t JOIN pg_class c ON c.oid = t.relid WHERE isleaf AND reltuples >= 0),
            (SELECT coalesce(sum(pg_total_relation_size(t.relid)), 0)::bigint FROM pg_partition_tree(r.partition) t)
        FROM ids.snowflake_ranges(relation) r;
END
$$;
COMMENT ON FUNCTION ids.snowflake_partitions(regclass, text) IS
    'partitions of a table that is partitioned by range of IDs of another layout';

CREATE OR REPLACE FUNCTION ids.snowflake_partitions(relation regclass) RETURNS SETOF ids.snowflake_partition
    LANGUAGE sql STABLE STRICT PARALLEL SAFE ROWS 100
    BEGIN ATOMIC SELECT * FROM ids.snowflake_partitions(relation, ids.snowflake_layout()); END;
COMMENT ON FUNCTION ids.snowflake_partitions(regclass) IS
    'partitions of a table that is partitioned by range of its ID: when each begins and ends, its rows and its size; a default partition is last';

CREATE OR REPLACE FUNCTION ids.snowflake_check_periods(every interval, ahead integer) RETURNS void
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    months integer := extract(year FROM every) * 12 + extract(month FROM every);
    micros numeric := extract(epoch FROM every) * 1000000;
BEGIN
    IF months < 0 OR micros <= 0 OR micros % 1000000 <> 0 OR months > 0 AND every <> make_interval(months => months) OR months = 0 AND extract(day FROM every) < 0 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'every must be a number of months, or a whole number of seconds',
            DETAIL = format('The value is %s.', every), HINT = 'Use, for example, interval ''1 hour'', ''1 day'', ''1 week'', ''1 month'' or ''1 year''.';
    ELSIF ahead NOT BETWEEN 0 AND 1000 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'ahead must be between 0 and 1000', DETAIL = format('The value is %s.', ahead);
    END IF;
END
$$;
COMMENT ON FUNCTION ids.snowflake_check_periods(interval, integer) IS 'not to be called: the errors for periods that partitions cannot have';

CREATE OR REPLACE FUNCTION ids.snowflake_partition_name(parent name, since timestamptz) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    suffix text := '_' || to_char(since AT TIME ZONE 'UTC', CASE WHEN date_trunc('day', since, 'UTC') = since THEN 'YYYYMMDD'
        WHEN date_trunc('minute', since, 'UTC') = since THEN 'YYYYMMDD_HH24MI' ELSE 'YYYYMMDD_HH24MISS' END);
BEGIN
    -- A name has 63 bytes, which may not end within a character.
    RETURN (SELECT left(parent::text, n) || suffix FROM generate_series(length(parent::text), 0, -1) n
        WHERE octet_length(left(parent::text, n) || suffix) <= 63 LIMIT 1);
END
$$;
COMMENT ON FUNCTION ids.snowflake_partition_name(name, timestamptz) IS 'not to be called: the name of a partition';

-- Makes the partition of these IDs.
CREATE OR REPLACE FUNCTION ids.snowflake_make_partition(parent regclass, id_range int8range, f ids.snowflake_fields) RETURNS regclass
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    schema name;
    name name;
    partition text;
    like_it text;
BEGIN
    SELECT nspname, relname, concat(' USING ' || quote_ident(amname), ' TABLESPACE ' || quote_ident(spcname)) INTO schema, name, like_it
        FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace LEFT JOIN pg_am a ON a.oid = relam LEFT JOIN pg_tablespace t ON t.oid = reltablespace
        WHERE c.oid = parent;
    partition := ids.snowflake_partition_name(name, ids.snowflake_time_of(lower(id_range), f));
    IF to_regclass(format('%I.%I', schema, partition)) IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'duplicate_table', MESSAGE = format('relation "%s" already exists', partition),
            DETAIL = format('A partition from %s on is missing, and would have this name.',
                ids.snowflake_display_time(f.epoch + f.tick_ms * (lower(id_range) >> f.timestamp_shift))),
            HINT = 'Rename it. If it contains the IDs of that time, use ALTER TABLE ... ATTACH PARTITION.';
    END IF;
    -- PARTITION OF would lock out readers and writers.
    EXECUTE format('CREATE TABLE %I.%I (LIKE %I.%I INCLUDING COMPRESSION INCLUDING CONSTRAINTS INCLUDING DEFAULTS INCLUDING GENERATED INCLUDING STORAGE)%s',
        schema, partition, schema, name, like_it);
    EXECUTE format('ALTER TABLE %I.%I ATTACH PARTITION %I.%I FOR VALUES FROM (%L) TO (%s)', schema, name, schema, partition, lower(id_range),
        CASE WHEN upper_inf(id_range) THEN 'MAXVALUE' ELSE quote_literal(upper(id_range)) END);
    RETURN format('%I.%I', schema, partition)::regclass;
END
$$;
COMMENT ON FUNCTION ids.snowflake_make_partition(regclass, int8range, ids.snowflake_fields) IS 'not to be called: makes the partition of these IDs';

CREATE OR REPLACE FUNCTION ids.snowflake_create_partitions(relation regclass, every interval, ahead integer, layout text) RETURNS SETOF ids.snowflake_partition
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f ids.snowflake_fields := ids.snowflake_fields(layout);
    owner regrole := (SELECT relowner FROM pg_class WHERE oid = relation);
    covered int8multirange;
    wanted int8multirange;
    starts bigint[];
    missing int8range;
    made regclass[] := '{}'::regclass[];
BEGIN
    PERFORM ids.snowflake_must_sort(f), ids.snowflake_check_periods(every, ahead);
    -- A CHECK or an index can call functions of the owner.
    IF owner <> quote_ident(current_user)::regrole THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('must be owner of table %s', (SELECT relname FROM pg_class WHERE oid = relation)),
            HINT = format('Type SET ROLE %s.', owner);
    END IF;
    PERFORM ids.snowflake_ranges(relation);
    -- Against other schema changes; readers and writers continue. A regclass is written with its schema, as search_path has none.
    EXECUTE format('LOCK TABLE ONLY %s IN SHARE UPDATE EXCLUSIVE MODE', relation);
    SELECT coalesce(range_agg(id_range), '{}') INTO covered FROM ids.snowflake_ranges(relation) WHERE id_range IS NOT NULL;
    -- First IDs of the periods, NULL after the end of the layout.
    SELECT array_agg(CASE WHEN tick <= f.last_tick THEN tick << f.timestamp_shift END ORDER BY nth) INTO starts FROM (
        SELECT nth, greatest(ceil((floor(extract(epoch FROM ids.snowflake_period(every, clock_timestamp(), nth)) * 1000) - f.epoch) / f.tick_ms), 0)::bigint AS tick
        FROM generate_series(0, ahead + 1) nth) ticks;
    IF starts[ahead + 1] IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'datetime_field_overflow', MESSAGE = 'the layout ends before the last partition begins',
            DETAIL = format('The layout is %s.', f.text), HINT = 'Ask for fewer partitions ahead, or for shorter ones.';
    END IF;
    FOR nth IN 1..ahead + 1 LOOP
        wanted := int8multirange(int8range(starts[nth], starts[nth + 1])) - covered;
        FOREACH missing IN ARRAY ARRAY(SELECT r FROM unnest(wanted) r) LOOP
            made := made || ids.snowflake_make_partition(relation, missing, f);
        END LOOP;
    END LOOP;
    RETURN QUERY SELECT * FROM ids.snowflake_partitions(relation, layout) p WHERE p.partition = ANY (made);
END
$$;
COMMENT ON FUNCTION ids.snowflake_create_partitions(regclass, interval, integer, text) IS
    'create the missing partitions of a table that is partitioned by range of IDs of another layout';

CREATE OR REPLACE FUNCTION ids.snowflake_create_partitions(relation regclass, every interval, ahead integer) RETURNS SETOF ids.snowflake_partition
    LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE ROWS 10
    BEGIN ATOMIC SELECT * FROM ids.snowflake_create_partitions(relation, every, ahead, ids.snowflake_layout()); END;
COMMENT ON FUNCTION ids.snowflake_create_partitions(regclass, interval, integer) IS
    'create the missing partitions of a table that is partitioned by range of its ID, for the current period, such as a day, and for that many periods ahead; returns the partitions created';

CREATE OR REPLACE FUNCTION ids.snowflake_drop_partitions(relation regclass, before timestamptz, dry_run boolean, layout text)
    RETURNS SETOF ids.snowflake_old_partition
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f ids.snowflake_fields := ids.snowflake_fields(layout);
    old record;
    has_default boolean;
BEGIN
    PERFORM ids.snowflake_must_sort(f);
    IF before > clock_timestamp() THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'before must not be in the future',
            DETAIL = format('The clock shows %s.', ids.snowflake_display_time(ids.snowflake_unix_ms())), HINT = 'Use, for example, now() - interval ''90 days''.';
    END IF;
    has_default := EXISTS (SELECT FROM ids.snowflake_ranges(relation) WHERE id_range IS NULL);
    FOR old IN
        SELECT p.*, inhdetachpending FROM ids.snowflake_partitions(relation, layout) p JOIN pg_inherits ON inhrelid = p.partition
        WHERE p.until <= CASE WHEN isfinite(before) THEN date_bin(interval '1 millisecond' * f.tick_ms::float8, before, ids.snowflake_at(f.epoch)) ELSE before END
    LOOP
        IF dry_run THEN
            RETURN QUERY VALUES (format('ALTER TABLE %s DETACH PARTITION %s%s', relation, old.partition, CASE WHEN old.inhdetachpending THEN ' FINALIZE'
                WHEN has_default THEN '' ELSE ' CONCURRENTLY' END), old.partition::text, old.since, old.until, old.rows, old.bytes);
        END IF;
        RETURN QUERY VALUES (format('DROP TABLE %s', old.partition), old.partition::text, old.since, old.until, old.rows, old.bytes);
        IF NOT dry_run THEN
            EXECUTE format('DROP TABLE %s', old.partition);
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION ids.snowflake_drop_partitions(regclass, timestamptz, boolean, text) IS
    'commands for \gexec that detach and drop old partitions of IDs of another layout; with dry_run false, drops them at once';

CREATE OR REPLACE FUNCTION ids.snowflake_drop_partitions(relation regclass, before timestamptz, dry_run boolean DEFAULT true)
    RETURNS SETOF ids.snowflake_old_partition
    LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE ROWS 10
    BEGIN ATOMIC SELECT * FROM ids.snowflake_drop_partitions(relation, before, dry_run, ids.snowflake_layout()); END;
COMMENT ON FUNCTION ids.snowflake_drop_partitions(regclass, timestamptz, boolean) IS
    'commands for \gexec that detach and drop the partitions that end before a time, while readers and writers continue; with dry_run false, drops them at once';
