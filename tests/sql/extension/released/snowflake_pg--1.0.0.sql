-- snowflake_pg: what SQL sees. `make install` joins the files of this folder, and then those of ../adopt, by their
-- names.
--
-- VOLATILE: a new value every call. STABLE: depends on snowflake_pg.layout, which is fixed while a preloading server
-- runs.
-- STRICT: NULL gives NULL. PARALLEL SAFE: the generator is in shared memory.
-- PUBLIC may issue and read IDs. Functions for DBAs are revoked from PUBLIC, below.
--
-- A role that may create in the schema of the extension could add an operator or a function that PostgreSQL prefers to
-- a conversion. So types are exact, and a function that takes a literal is named with pg_catalog.

\echo Use "CREATE EXTENSION snowflake_pg" to load this file. \quit

-- Issuing

-- Not to be called. These tell COPY that a default reads no table.
CREATE FUNCTION snowflake_nextval_in_copy(internal) RETURNS bigint
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_nextval';
COMMENT ON FUNCTION snowflake_nextval_in_copy(internal) IS
    'not to be called: snowflake_nextval() as COPY calls it';
CREATE FUNCTION snowflake_nextval_in_copy(internal, integer) RETURNS bigint
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_nextval_tagged_in_copy_wrapper';
COMMENT ON FUNCTION snowflake_nextval_in_copy(internal, integer) IS
    'not to be called: snowflake_nextval_tagged() as COPY calls it';
CREATE FUNCTION snowflake_nextval_support(internal) RETURNS internal
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_nextval_support_wrapper';
COMMENT ON FUNCTION snowflake_nextval_support(internal) IS
    'not to be called: planner support for functions that issue an ID; marks defaults that do, and lets COPY insert '
    'many rows at once';

CREATE FUNCTION snowflake_nextval() RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE SUPPORT snowflake_nextval_support
    AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION snowflake_nextval() IS
    'next ID, greater than every ID that this server has returned (unless clock_regression is history); for id bigint '
    'PRIMARY KEY DEFAULT snowflake_nextval()';

-- The same function. Rails' fixtures and other tools take "nextval" in a default for a sequence.
CREATE FUNCTION snowflake_id() RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE SUPPORT snowflake_nextval_support
    AS 'MODULE_PATHNAME', 'snowflake_nextval';
COMMENT ON FUNCTION snowflake_id() IS
    'next ID: snowflake_nextval() under another name, for tools that mistake "nextval" in a default for a sequence';

CREATE FUNCTION snowflake_nextval_tagged(tag integer) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE SUPPORT snowflake_nextval_support
    AS 'MODULE_PATHNAME', 'snowflake_nextval_tagged_wrapper';
COMMENT ON FUNCTION snowflake_nextval_tagged(integer) IS
    'next ID with a number from the application, such as a logical shard, in field h of the layout; unique with any '
    'tag';

CREATE FUNCTION snowflake_nextvals(count integer) RETURNS SETOF bigint
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE ROWS 1000 AS 'MODULE_PATHNAME', 'snowflake_nextvals_wrapper';
COMMENT ON FUNCTION snowflake_nextvals(integer) IS
    'next IDs, 1 to 1000000 in ascending order, all issued when the call begins';

CREATE FUNCTION snowflake_nextblock(count integer, OUT first bigint, OUT last bigint)
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_nextblock_wrapper';
COMMENT ON FUNCTION snowflake_nextblock(integer) IS
    'first and last of count adjacent IDs of one tick, for clients that count by themselves; at most the IDs of a '
    'tick, 4096 in layout flat';

-- PARALLEL RESTRICTED: each worker of a parallel query has its own last ID.
CREATE FUNCTION snowflake_lastval() RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'snowflake_lastval_wrapper';
COMMENT ON FUNCTION snowflake_lastval() IS
    'last ID issued to this session, like lastval() for sequences';

CREATE FUNCTION snowflake_fill() RETURNS trigger
    LANGUAGE c VOLATILE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION snowflake_fill() IS
    'trigger function that puts an ID into the named column of an inserted row if that is NULL, as in rows from '
    'postgres_fdw: EXECUTE FUNCTION snowflake_fill(''id'')';

-- Where the row of an ID is: operator classes by which a table is partitioned, and IDs for a given place
--
-- A class has its field in the name of an argument, and no parameter has a say in it: rows must be found after a dump,
-- on another server, under another layout. So a name such as bits_12_to_21, which the C function reads, can never
-- change.

CREATE FUNCTION snowflake_flat_worker_hash(bits_12_to_21 bigint) RETURNS integer
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_field_hash';
COMMENT ON FUNCTION snowflake_flat_worker_hash(bigint) IS 'not to be called: hash of snowflake_flat_worker_ops';
CREATE FUNCTION snowflake_flat_worker_hash_extended(bits_12_to_21 bigint, seed bigint) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_field_hash_extended';
COMMENT ON FUNCTION snowflake_flat_worker_hash_extended(bigint, bigint) IS
    'not to be called: hash of snowflake_flat_worker_ops by which PostgreSQL partitions';
CREATE OPERATOR CLASS snowflake_flat_worker_ops FOR TYPE bigint USING hash AS
    OPERATOR 1 pg_catalog.=(bigint, bigint),
    FUNCTION 1 snowflake_flat_worker_hash(bigint),
    FUNCTION 2 snowflake_flat_worker_hash_extended(bigint, bigint);
COMMENT ON OPERATOR CLASS snowflake_flat_worker_ops USING hash IS
    'for PARTITION BY HASH (id snowflake_flat_worker_ops): by the worker of layout flat, or data center and worker of '
    'twitter';
COMMENT ON OPERATOR FAMILY snowflake_flat_worker_ops USING hash IS 'by the worker of layout flat';

CREATE FUNCTION snowflake_bits_of(field text, layout text) RETURNS text
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_bits_of_wrapper';
COMMENT ON FUNCTION snowflake_bits_of(text, text) IS
    'not to be called: name of the argument of a hash function that hashes this field of the IDs of a layout';

-- The schema is a name: a regnamespace would let DROP SCHEMA public CASCADE drop the extension.
CREATE FUNCTION snowflake_create_operator_class(class_name name, field text, schema name, layout text)
    RETURNS void LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ours text := (SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg');
    argument text;
BEGIN
    EXECUTE format('SELECT %s.snowflake_bits_of($1, $2)', ours) INTO argument USING field, layout;
    EXECUTE format('CREATE FUNCTION %I.%I(%I bigint) RETURNS integer LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS %L, '
        '%L',
        schema, class_name || '_hash', argument, '$libdir/snowflake_pg', 'snowflake_field_hash');
    EXECUTE format('CREATE FUNCTION %I.%I(%I bigint, seed bigint) RETURNS bigint LANGUAGE c IMMUTABLE STRICT PARALLEL '
        'SAFE AS %L, %L',
        schema, class_name || '_hash_extended', argument, '$libdir/snowflake_pg', 'snowflake_field_hash_extended');
    -- For DROP EXTENSION to fail as long as there is a table that is partitioned by the class.
    EXECUTE format('ALTER FUNCTION %I.%I(bigint) DEPENDS ON EXTENSION snowflake_pg', schema, class_name || '_hash');
    EXECUTE format('ALTER FUNCTION %I.%I(bigint, bigint) DEPENDS ON EXTENSION snowflake_pg', schema,
        class_name || '_hash_extended');
    EXECUTE format('CREATE OPERATOR CLASS %1$I.%2$I FOR TYPE bigint USING hash AS OPERATOR 1 pg_catalog.=(bigint,
        bigint),
        FUNCTION 1 %1$I.%3$I(bigint), FUNCTION 2 %1$I.%4$I(bigint, bigint)', schema, class_name, class_name || '_hash',
            class_name || '_hash_extended');
    EXECUTE format('COMMENT ON OPERATOR CLASS %I.%I USING hash IS %L', schema, class_name,
        format('by the %s of layout %s', field, layout));
END
$$;
COMMENT ON FUNCTION snowflake_create_operator_class(name, text, name, text) IS
    'create an operator class for PARTITION BY HASH (id class) by a field of the IDs of a layout: a partition has the '
    'IDs whose field % modulus is its remainder; for superusers';

REVOKE ALL ON FUNCTION snowflake_bits_of(text, text), snowflake_create_operator_class(name, text, name, text)
    FROM PUBLIC;

CREATE FUNCTION snowflake_nextval_in_copy(internal, regclass) RETURNS bigint
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_nextval_for_in_copy_wrapper';
COMMENT ON FUNCTION snowflake_nextval_in_copy(internal, regclass) IS
    'not to be called: snowflake_nextval_for(relation) as COPY calls it';
CREATE FUNCTION snowflake_nextval_for(relation regclass) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE SUPPORT snowflake_nextval_support
    AS 'MODULE_PATHNAME', 'snowflake_nextval_for_wrapper';
COMMENT ON FUNCTION snowflake_nextval_for(regclass) IS
    'next ID that falls into this hash partition, or into a shard on this node of this table, which Citus distributes '
    'by ID';

CREATE FUNCTION snowflake_nextval_for(relation regclass, near bigint) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE SUPPORT snowflake_nextval_support
    AS 'MODULE_PATHNAME', 'snowflake_nextval_near_wrapper';
COMMENT ON FUNCTION snowflake_nextval_for(regclass, bigint) IS
    'next ID that falls into the hash partition of this table, or the shard of Citus, that has the row with the ID '
    'near';

CREATE FUNCTION snowflake_nextval_in_copy(internal, integer, integer) RETURNS bigint
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_nextval_for_shard_in_copy_wrapper';
COMMENT ON FUNCTION snowflake_nextval_in_copy(internal, integer, integer) IS
    'not to be called: snowflake_nextval_for_shard(shards, shard) as COPY calls it';
CREATE FUNCTION snowflake_nextval_for_shard(shards integer, shard integer) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE SUPPORT snowflake_nextval_support
    AS 'MODULE_PATHNAME', 'snowflake_nextval_for_shard_wrapper';
COMMENT ON FUNCTION snowflake_nextval_for_shard(integer, integer) IS
    'next ID that falls into shard number shard, from 0 to shards - 1: the hash partition with this modulus and '
    'remainder, or the shard of PgDog';

CREATE FUNCTION snowflake_shard_of(id bigint, shards integer) RETURNS integer
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_shard_of_wrapper';
COMMENT ON FUNCTION snowflake_shard_of(bigint, integer) IS
    'number of the shard of an ID, from 0 to shards - 1: the remainder of its hash partition, or its shard of PgDog';

-- Decoding and composing

CREATE FUNCTION snowflake_decode(
    id bigint, OUT issued_at timestamptz, OUT datacenter_id integer, OUT worker_id integer, OUT sequence integer,
    OUT tag integer)
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_decode_wrapper';
COMMENT ON FUNCTION snowflake_decode(bigint) IS
    'fields of an ID: when, by which data center and worker, its number in that tick, and its tag; NULL for a field '
    'that the layout lacks';

CREATE FUNCTION snowflake_decode(
    id bigint, layout text,
    OUT issued_at timestamptz, OUT datacenter_id integer, OUT worker_id integer, OUT sequence integer,
    OUT tag integer)
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_decode_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_decode(bigint, text) IS
    'fields of an ID of this layout, such as discord, or t41 w10 s12 epoch=2024-01-01T00:00:00Z; for indexes and '
    'generated columns';

-- STABLE: it looks at the clock.
CREATE FUNCTION snowflake_decode_all(
    id bigint, OUT layout text, OUT issued_at timestamptz, OUT datacenter_id integer, OUT worker_id integer,
    OUT sequence integer, OUT tag integer) RETURNS SETOF record
    LANGUAGE c STABLE STRICT PARALLEL SAFE ROWS 10 AS 'MODULE_PATHNAME', 'snowflake_decode_all_wrapper';
COMMENT ON FUNCTION snowflake_decode_all(bigint) IS
    'fields of an ID of unknown origin under each named layout that it fits, the latest time first, without times more '
    'than a day ahead';

CREATE FUNCTION snowflake_timestamp(id bigint) RETURNS timestamptz
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_timestamp_wrapper';
COMMENT ON FUNCTION snowflake_timestamp(bigint) IS
    'when an ID was issued: start of its tick';

CREATE FUNCTION snowflake_timestamp(id bigint, layout text) RETURNS timestamptz
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_timestamp_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_timestamp(bigint, text) IS
    'when an ID of this layout was issued; for indexes and generated columns';

CREATE FUNCTION snowflake_explain(id bigint) RETURNS text
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_explain_wrapper';
COMMENT ON FUNCTION snowflake_explain(bigint) IS
    'bits of an ID, grouped by field, with the meaning of each field';

CREATE FUNCTION snowflake_explain(id bigint, layout text) RETURNS text
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_explain_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_explain(bigint, text) IS
    'bits of an ID of this layout, grouped by field, with the meaning of each field';

-- Not STRICT: decoding gives NULL for a field that the layout does not have, and composing takes it back.
CREATE FUNCTION snowflake_compose(
    issued_at timestamptz, datacenter_id integer, worker_id integer, sequence integer, tag integer DEFAULT 0)
    RETURNS bigint
    LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_compose_wrapper';
COMMENT ON FUNCTION snowflake_compose(timestamptz, integer, integer, integer, integer) IS
    'ID with these fields; NULL or 0 for a field that the layout lacks, and for no tag';

CREATE FUNCTION snowflake_compose(
    issued_at timestamptz, datacenter_id integer, worker_id integer, sequence integer, tag integer, layout text)
    RETURNS bigint
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_compose_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_compose(timestamptz, integer, integer, integer, integer, text) IS
    'ID of this layout with these fields; NULL or 0 for a field that the layout lacks, and for no tag';

-- Selecting by time, with an index on the ID

CREATE FUNCTION snowflake_min_id(at timestamptz) RETURNS bigint
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_min_id_wrapper';
COMMENT ON FUNCTION snowflake_min_id(timestamptz) IS
    'lowest ID of any worker in the tick of a time';

CREATE FUNCTION snowflake_min_id(at timestamptz, layout text) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_min_id_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_min_id(timestamptz, text) IS
    'lowest ID of this layout in the tick of a time';

-- The planner compares an ID with this where a query compares its time, so EXPLAIN shows it.
CREATE FUNCTION snowflake_bound(at timestamptz, operator text) RETURNS bigint
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_bound_wrapper';
COMMENT ON FUNCTION snowflake_bound(timestamptz, text) IS
    'lowest ID whose time is >= or > a time, or greatest one whose time is <= or <; NULL if there is none';

CREATE FUNCTION snowflake_bound(at timestamptz, operator text, layout text) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_bound_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_bound(timestamptz, text, text) IS
    'lowest ID of this layout whose time is >= or > a time, or greatest one whose time is <= or <; NULL if there is '
    'none';

-- Not STRICT, so that the planner can put the two comparisons in its place. NULLs behave as they do in BETWEEN.
CREATE FUNCTION snowflake_within(id bigint, since timestamptz, until timestamptz DEFAULT 'infinity') RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN id >= snowflake_bound(since, '>='::text) AND id <= snowflake_bound(until, '<'::text);
COMMENT ON FUNCTION snowflake_within(bigint, timestamptz, timestamptz) IS
    'whether the time of an ID is since or later, and before until; uses an index on the ID';

CREATE FUNCTION snowflake_within(id bigint, since timestamptz, until timestamptz, layout text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN id >= snowflake_bound(since, '>='::text, layout) AND id <= snowflake_bound(until, '<'::text, layout);
COMMENT ON FUNCTION snowflake_within(bigint, timestamptz, timestamptz, text) IS
    'whether the time of an ID of this layout is since or later, and before until; uses an index on the ID';

-- PostgreSQL's casts refuse what its operators compare.
CREATE FUNCTION snowflake_instant(at timestamp) RETURNS timestamptz
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_instant_wrapper';
COMMENT ON FUNCTION snowflake_instant(timestamp) IS
    'not to be called: how the planner casts timestamp to timestamptz; infinity or -infinity beyond its range';

CREATE FUNCTION snowflake_midnight(at date) RETURNS timestamp
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_midnight_wrapper';
COMMENT ON FUNCTION snowflake_midnight(date) IS
    'not to be called: how the planner casts date to timestamp; infinity beyond its range';

-- Columns for the time of the ID

CREATE FUNCTION snowflake_time_expression(column_name name, of_type regtype DEFAULT 'timestamptz') RETURNS text
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_time_expression_wrapper';
COMMENT ON FUNCTION snowflake_time_expression(name, regtype) IS
    'SQL for the time of the IDs in a column, in functions of PostgreSQL alone: for virtual columns, and for models of '
    'frameworks; a timestamp is in UTC';

CREATE FUNCTION snowflake_time_expression(column_name name, of_type regtype, layout text) RETURNS text
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_time_expression_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_time_expression(name, regtype, text) IS
    'SQL for the time of the IDs of this layout in a column, in functions of PostgreSQL alone';

CREATE FUNCTION snowflake_key_of(relation regclass, stored boolean) RETURNS name
    LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ours oid := (SELECT t.oid FROM pg_extension JOIN pg_type t ON typnamespace = extnamespace
        WHERE extname = 'snowflake_pg' AND typname = 'snowflake');
    key name;
    of_type oid;
BEGIN
    SELECT attname, atttypid INTO key, of_type FROM pg_index JOIN pg_attribute ON attrelid = indrelid
        AND attnum = indkey[0]
        WHERE indrelid = relation AND indisprimary AND indnkeyatts = 1 AND atttypid IN ('bigint'::regtype, ours);
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'wrong_object_type',
            MESSAGE = format('relation %s has no primary key of one bigint column', relation),
            HINT = 'Add the column by ALTER TABLE, with the expression of snowflake_time_expression().';
    ELSIF NOT stored AND (current_setting('server_version_num')::integer < 180000 OR of_type = ours) THEN
        RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
            MESSAGE = CASE of_type WHEN ours THEN 'a virtual column cannot use a key of type snowflake'
                ELSE 'virtual columns came with PostgreSQL 18' END,
            HINT = 'A view can have the column. snowflake_add_created_at() with stored => true rewrites the table, and '
                'each row takes 8 bytes more.';
    END IF;
    RETURN key;
END
$$;
COMMENT ON FUNCTION snowflake_key_of(regclass, boolean) IS
    'not to be called: the primary key for a generated column of its time, or an error';

CREATE FUNCTION snowflake_add_column(relation regclass, column_name name, stored boolean, of_type regtype,
    expression text) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ADD COLUMN %I %s GENERATED ALWAYS AS (%s) %s',
        relation, column_name, of_type, expression, CASE WHEN stored THEN 'STORED' ELSE 'VIRTUAL' END);
END
$$;
COMMENT ON FUNCTION snowflake_add_column(regclass, name, boolean, regtype, text) IS
    'not to be called: what snowflake_add_created_at() does';

CREATE FUNCTION snowflake_add_created_at(
    relation regclass, column_name name DEFAULT 'created_at', stored boolean DEFAULT false,
    of_type regtype DEFAULT 'timestamptz')
    RETURNS void LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE
    RETURN snowflake_add_column(relation, column_name, stored, of_type,
        snowflake_time_expression(snowflake_key_of(relation, stored), of_type));
COMMENT ON FUNCTION snowflake_add_created_at(regclass, name, boolean, regtype) IS
    'add a generated column with the time of the primary key: virtual, which takes no room; conditions on it use the '
    'key';

CREATE FUNCTION snowflake_add_created_at(
    relation regclass, column_name name, stored boolean, of_type regtype, layout text)
    RETURNS void LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE
    RETURN snowflake_add_column(relation, column_name, stored, of_type,
        snowflake_time_expression(snowflake_key_of(relation, stored), of_type, layout));
COMMENT ON FUNCTION snowflake_add_created_at(regclass, name, boolean, regtype, text) IS
    'add a generated column with the time of the primary key, which has IDs of this layout';

-- Partitions by time

-- Types instead of OUT parameters, which would make \df wider.
CREATE TYPE snowflake_partition AS (
    partition regclass, begins_at timestamptz, ends_at timestamptz, rows bigint, bytes bigint);
COMMENT ON TYPE snowflake_partition IS 'row of snowflake_partitions() and snowflake_create_partitions()';
COMMENT ON COLUMN snowflake_partition.begins_at IS 'first timestamp; NULL for a default partition';
COMMENT ON COLUMN snowflake_partition.ends_at IS
    'end, which is the first timestamp of the next partition; NULL for a default partition';
COMMENT ON COLUMN snowflake_partition.rows IS 'as ANALYZE has estimated them; NULL if it has never run';
COMMENT ON COLUMN snowflake_partition.bytes IS 'size with indexes and TOAST';

-- PARALLEL UNSAFE: it creates tables, as the owner of the parent, whose privileges the caller must have.
-- If the type of the key is a domain, its CHECK must allow the bounds.
CREATE FUNCTION snowflake_create_partitions(
    relation regclass, every interval, ahead integer) RETURNS SETOF snowflake_partition
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 10
    AS 'MODULE_PATHNAME', 'snowflake_create_partitions_wrapper';
COMMENT ON FUNCTION snowflake_create_partitions(regclass, interval, integer) IS
    'create the missing partitions of a table that is partitioned by range of its ID, for the current period, such as '
    'a day, and for that many periods ahead; returns the partitions created';

CREATE FUNCTION snowflake_create_partitions(
    relation regclass, every interval, ahead integer, layout text) RETURNS SETOF snowflake_partition
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 10
    AS 'MODULE_PATHNAME', 'snowflake_create_partitions_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_create_partitions(regclass, interval, integer, text) IS
    'create the missing partitions of a table that is partitioned by range of IDs of this layout';

CREATE FUNCTION snowflake_partitions(relation regclass) RETURNS SETOF snowflake_partition
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE ROWS 100 AS 'MODULE_PATHNAME', 'snowflake_partitions_wrapper';
COMMENT ON FUNCTION snowflake_partitions(regclass) IS
    'partitions of a table that is partitioned by range of its ID: when each begins and ends, its rows and its size; a '
    'default partition is last';

CREATE FUNCTION snowflake_partitions(relation regclass, layout text) RETURNS SETOF snowflake_partition
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE ROWS 100 AS 'MODULE_PATHNAME', 'snowflake_partitions_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_partitions(regclass, text) IS
    'partitions of a table that is partitioned by range of IDs of this layout';

-- Reading by ID

CREATE FUNCTION snowflake_horizon_support(internal) RETURNS internal
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_horizon_support_wrapper';
COMMENT ON FUNCTION snowflake_horizon_support(internal) IS
    'not to be called: planner support for snowflake_horizon(); refuses queries that read a table, which would not see '
    'all rows below the horizon';

CREATE FUNCTION snowflake_horizon() RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE SUPPORT snowflake_horizon_support
    AS 'MODULE_PATHNAME', 'snowflake_horizon_wrapper';
COMMENT ON FUNCTION snowflake_horizon() IS
    'ID below which no row can appear any more: every transaction of this server, or on a standby of its primary, that '
    'has drawn a smaller ID has ended; NULL while it is not known; read it in a statement before the query';

-- Not STRICT: the first argument is NULL, and only its type counts; and no column means the primary key.
CREATE FUNCTION snowflake_poll(
    relation anyelement, after bigint, max_rows integer DEFAULT 1000, column_name name DEFAULT NULL,
    wait interval DEFAULT NULL)
        RETURNS SETOF anyelement
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1000 AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION snowflake_poll(anyelement, bigint, integer, name, interval) IS
    'rows of a table after an ID, in order and below the horizon, so a reader that continues after the last one misses '
    'none; waits for rows, if asked to: SELECT * FROM snowflake_poll(NULL::orders, 0, wait => ''10 s'')';

CREATE FUNCTION snowflake_get_writers() RETURNS SETOF record
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE ROWS 10 AS 'MODULE_PATHNAME', 'snowflake_get_writers_wrapper';
COMMENT ON FUNCTION snowflake_get_writers() IS
    'not to be called: use the view snowflake_writers';

CREATE VIEW snowflake_writers AS
    SELECT pid, gid, first_id,
        least(coalesce(greatest(snowflake_timestamp(first_id), xact_start), prepared),
            clock_timestamp()) AS first_id_at,
           coalesce(datname, database) AS datname, coalesce(usename, owner) AS usename, application_name, state,
           xact_start, query
    FROM snowflake_get_writers() AS writers(pid integer, transaction xid, first_id bigint)
        LEFT JOIN pg_stat_activity USING (pid)
        LEFT JOIN pg_prepared_xacts USING (transaction)
    ORDER BY first_id NULLS FIRST;
GRANT SELECT ON snowflake_writers TO PUBLIC;
COMMENT ON VIEW snowflake_writers IS
    'transactions that have drawn IDs and have not ended: the first one holds back snowflake_horizon()';
COMMENT ON COLUMN snowflake_writers.pid IS 'process ID; NULL for a prepared transaction';
COMMENT ON COLUMN snowflake_writers.gid IS 'name of a prepared transaction';
COMMENT ON COLUMN snowflake_writers.first_id IS
    'first ID that the transaction has drawn, without its tag, or a bound below it; NULL if it was prepared before the '
    'server started: then the horizon stays where it was in WAL until it ends';
COMMENT ON COLUMN snowflake_writers.first_id_at IS
    'when it has drawn the ID; if first_id is NULL, when the transaction was prepared';

-- IDs for outsiders

CREATE FUNCTION snowflake_encrypt(id bigint, key bytea) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE COST 100 AS 'MODULE_PATHNAME', 'snowflake_encrypt_wrapper';
COMMENT ON FUNCTION snowflake_encrypt(bigint, bytea) IS
    'another ID, never negative, that shows neither time nor server nor volume to anyone without the key: FF1 of NIST '
    'SP 800-38G with AES, keys of 16, 24 or 32 bytes';

CREATE FUNCTION snowflake_decrypt(id bigint, key bytea) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE COST 100 AS 'MODULE_PATHNAME', 'snowflake_decrypt_wrapper';
COMMENT ON FUNCTION snowflake_decrypt(bigint, bytea) IS
    'the ID that snowflake_encrypt() has encrypted; a different ID, and no error, if the key is wrong';

-- Text and UUID: the same number, so no layout is needed ------------------------------------------------------------

-- Not STRICT: no alphabet means the usual one. NULL for another argument gives NULL.
CREATE FUNCTION snowflake_to_text(id bigint, encoding text, alphabet text DEFAULT NULL) RETURNS text
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_to_text_wrapper';
COMMENT ON FUNCTION snowflake_to_text(bigint, text, text) IS
    'ID as a short text, for URLs: base62, base58, crockford32 (13 characters) or hex (16); the last two sort as the '
    'ID does, with COLLATE "C"; base62 and base58 take another alphabet of as many ASCII characters';

CREATE FUNCTION snowflake_from_text(text text, encoding text, alphabet text DEFAULT NULL) RETURNS bigint
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_from_text_wrapper';
COMMENT ON FUNCTION snowflake_from_text(text, text, text) IS
    'ID from the text of snowflake_to_text(); crockford32 and hex in any letter case, crockford32 also with I or L for '
    '1, O for 0, and hyphens';

CREATE FUNCTION snowflake_to_uuid(id bigint) RETURNS uuid
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_to_uuid_wrapper';
COMMENT ON FUNCTION snowflake_to_uuid(bigint) IS
    'ID as a UUID of version 8 (RFC 9562), which sorts as the ID does';

CREATE FUNCTION snowflake_from_uuid(uuid uuid) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_from_uuid_wrapper';
COMMENT ON FUNCTION snowflake_from_uuid(uuid) IS
    'ID from the UUID of snowflake_to_uuid(); an error for any other UUID';

-- The type snowflake: a bigint that is a string in JSON, as JavaScript's numbers are exact only to 2^53
--
-- It uses the operators of int8, and its operator classes for btree, hash and brin, as varchar uses text's. With its
-- own classes, a join with a bigint could not use the index on the bigint.

CREATE TYPE snowflake;
CREATE FUNCTION snowflake_in(cstring) RETURNS snowflake
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int8in';
CREATE FUNCTION snowflake_out(snowflake) RETURNS cstring
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int8out';
CREATE FUNCTION snowflake_recv(internal) RETURNS snowflake
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int8recv';
CREATE FUNCTION snowflake_send(snowflake) RETURNS bytea
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int8send';
CREATE TYPE snowflake (
    INPUT = snowflake_in, OUTPUT = snowflake_out, RECEIVE = snowflake_recv, SEND = snowflake_send,
    LIKE = bigint, CATEGORY = 'N');
COMMENT ON TYPE snowflake IS
    'bigint that is a string in JSON, so that JavaScript loses no digits';
COMMENT ON FUNCTION snowflake_in(cstring) IS 'I/O';
COMMENT ON FUNCTION snowflake_out(snowflake) IS 'I/O';
COMMENT ON FUNCTION snowflake_recv(internal) IS 'I/O';
COMMENT ON FUNCTION snowflake_send(snowflake) IS 'I/O';

-- Implicit in one direction only: where both types meet, as in UNION, the result is a bigint, whichever comes first.
CREATE CAST (snowflake AS bigint) WITHOUT FUNCTION AS IMPLICIT;
COMMENT ON CAST (snowflake AS bigint) IS 'the same bits';
CREATE CAST (bigint AS snowflake) WITHOUT FUNCTION AS ASSIGNMENT;
COMMENT ON CAST (bigint AS snowflake) IS 'the same bits';

-- For small constants: INSERT ... VALUES (1), and coalesce(id, 0), which remains a snowflake.
CREATE FUNCTION snowflake(integer) RETURNS snowflake
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int48';
COMMENT ON FUNCTION snowflake(integer) IS 'convert integer to snowflake';
CREATE CAST (integer AS snowflake) WITH FUNCTION snowflake(integer) AS IMPLICIT;
COMMENT ON CAST (integer AS snowflake) IS 'the same number';
CREATE FUNCTION snowflake(smallint) RETURNS snowflake
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int28';
COMMENT ON FUNCTION snowflake(smallint) IS 'convert smallint to snowflake';
CREATE CAST (smallint AS snowflake) WITH FUNCTION snowflake(smallint) AS IMPLICIT;
COMMENT ON CAST (smallint AS snowflake) IS 'the same number';

-- So that min and max are strings in JSON, too. They read all rows: an aggregate uses an index only by an operator of
-- its own type in the operator family of the index. ORDER BY id DESC LIMIT 1 reads one row.
CREATE FUNCTION snowflake_smaller(snowflake, snowflake) RETURNS snowflake
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int8smaller';
COMMENT ON FUNCTION snowflake_smaller(snowflake, snowflake) IS 'smaller of two';
CREATE FUNCTION snowflake_larger(snowflake, snowflake) RETURNS snowflake
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int8larger';
COMMENT ON FUNCTION snowflake_larger(snowflake, snowflake) IS 'larger of two';
CREATE AGGREGATE min(snowflake) (
    SFUNC = snowflake_smaller, STYPE = snowflake, COMBINEFUNC = snowflake_smaller, PARALLEL = SAFE);
COMMENT ON AGGREGATE min(snowflake) IS
    'minimum value of all snowflake input values; reads all of them, where ORDER BY id LIMIT 1 uses an index';
CREATE AGGREGATE max(snowflake) (
    SFUNC = snowflake_larger, STYPE = snowflake, COMBINEFUNC = snowflake_larger, PARALLEL = SAFE);
COMMENT ON AGGREGATE max(snowflake) IS
    'maximum value of all snowflake input values; reads all of them, where ORDER BY id DESC LIMIT 1 uses an index';

-- Layouts
--
-- A function that depends on snowflake_pg.layout has a second form, with the layout as its last argument. The first is
-- at most STABLE. The second is IMMUTABLE if it reads nothing else, so that an index or a generated column can use it.
-- The planner adds the layout to calls in queries.

-- The functions behind views declare no columns, which would make \df wider. The library returns the columns that the
-- view declares.
CREATE FUNCTION snowflake_get_layouts() RETURNS SETOF record
    LANGUAGE c STABLE STRICT PARALLEL SAFE ROWS 17 AS 'MODULE_PATHNAME', 'snowflake_get_layouts_wrapper';
COMMENT ON FUNCTION snowflake_get_layouts() IS
    'not to be called: use the view snowflake_layouts';

CREATE VIEW snowflake_layouts AS
    SELECT * FROM snowflake_get_layouts() AS layouts(
        name text, fields text, unit interval, epoch timestamptz, usable_until timestamptz, years double precision,
        workers bigint, max_ids_per_second bigint, can_issue boolean, source text);
GRANT SELECT ON snowflake_layouts TO PUBLIC;
COMMENT ON VIEW snowflake_layouts IS
    'named layouts, for snowflake_pg.layout and for functions that take a layout';
COMMENT ON COLUMN snowflake_layouts.fields IS
    'widths of timestamp (t), data center (d), worker (w) and sequence (s), from the highest bits to the lowest';
COMMENT ON COLUMN snowflake_layouts.unit IS 'length of a tick';
COMMENT ON COLUMN snowflake_layouts.epoch IS 'first timestamp';
COMMENT ON COLUMN snowflake_layouts.years IS 'how long the timestamps last, from the epoch';
COMMENT ON COLUMN snowflake_layouts.workers IS 'number of servers in all data centers together';
COMMENT ON COLUMN snowflake_layouts.max_ids_per_second IS 'most IDs that one server can issue in a second';
COMMENT ON COLUMN snowflake_layouts.can_issue IS
    'whether a server can issue IDs now: at most 63 bits, timestamp highest, last timestamp not past; if it is, add a '
    'later epoch=';
COMMENT ON COLUMN snowflake_layouts.source IS 'where the layout is published';

-- Monitoring

CREATE FUNCTION snowflake_get_status() RETURNS record
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_get_status_wrapper';
COMMENT ON FUNCTION snowflake_get_status() IS
    'not to be called: use the view snowflake_status';

CREATE VIEW snowflake_status AS
    SELECT * FROM snowflake_get_status() AS status(
        state text, problem text, problem_sqlstate text,
        worker_id integer, worker_id_source text, datacenter_id integer, layout text, usable_until timestamptz,
        max_ids_per_second bigint,
        last_issued_at timestamptz, lead interval, horizon_at timestamptz, durable_mark timestamptz,
        mark_left interval, keeper_pid integer,
        clones_detected_by text, clones_undetected_because text,
        lease_until timestamptz, clock_offset interval, registry_error text,
        stats_reset_at timestamptz, ids_issued bigint, busiest_second_ids bigint, ticks_exhausted bigint,
        borrowed_ids bigint,
        history_ids bigint, clock_regressions bigint, largest_regression interval, last_regression_at timestamptz,
        clock_waits bigint, clock_wait_time interval, mark_extensions bigint, mark_wait_time interval,
        refusals bigint, last_refusal text, last_refusal_sqlstate text, last_refusal_at timestamptz,
        library_version text, extension_version text);
GRANT SELECT ON snowflake_status TO PUBLIC;
COMMENT ON VIEW snowflake_status IS
    'one row about this server: its state, durable mark, and counters';
COMMENT ON COLUMN snowflake_status.state IS
    'ready, or idle if no ID was issued since the server started; others are in docs/operations.md';
COMMENT ON COLUMN snowflake_status.problem IS
    'why no ID is issued, or what the background worker fails to do, and what to do; NULL if nothing is wrong, or '
    'unless the user may read all settings';
COMMENT ON COLUMN snowflake_status.problem_sqlstate IS 'its SQLSTATE; NULL if nothing is wrong';
COMMENT ON COLUMN snowflake_status.worker_id IS 'worker ID of this server; NULL if there is none';
COMMENT ON COLUMN snowflake_status.worker_id_source IS 
    'configuration; registry; hostname (and its name: hostname pg-3); env (and the variable); file (and its path); '
    'ipv4 (and the address); citus (and the database): where it comes from';
COMMENT ON COLUMN snowflake_status.datacenter_id IS 'data center of this server; NULL if the layout has none';
COMMENT ON COLUMN snowflake_status.layout IS 'layout of this server, spelled out';
COMMENT ON COLUMN snowflake_status.usable_until IS 'last timestamp of the layout';
COMMENT ON COLUMN snowflake_status.max_ids_per_second IS 'most IDs that the layout lets this server issue in a second';
COMMENT ON COLUMN snowflake_status.last_issued_at IS
    'timestamp of the last ID, or when the horizon was read later; NULL if none was issued since the server started';
COMMENT ON COLUMN snowflake_status.lead IS
    'how far last_issued_at is ahead of the clock; 0 unless the clock has gone back or the server has just started';
COMMENT ON COLUMN snowflake_status.horizon_at IS
    'timestamp of the horizon, up to which readers by ID get all rows; on a standby, how complete it is; NULL if it is '
    'not known';
COMMENT ON COLUMN snowflake_status.durable_mark IS
    'time on disk that no ID reaches, and at which IDs continue after a crash';
COMMENT ON COLUMN snowflake_status.mark_left IS
    'how far the durable mark is ahead of the clock; NULL unless IDs were issued within the last minute';
COMMENT ON COLUMN snowflake_status.keeper_pid IS
    'process ID of the background worker that writes the durable mark; NULL if it does not run: calls then write the '
    'mark themselves, except to WAL';
COMMENT ON COLUMN snowflake_status.clones_detected_by IS
    'vmclock or none: how this server notices that its machine was cloned';
COMMENT ON COLUMN snowflake_status.clones_undetected_because IS
    'why it would not notice that; NULL if it would, or unless the user may read all settings';
COMMENT ON COLUMN snowflake_status.lease_until IS
    'when IDs end unless the registry renews the lease; NULL without a registry';
COMMENT ON COLUMN snowflake_status.clock_offset IS
    'how far the clock was ahead of the registry''s when they were compared last; NULL without a registry';
COMMENT ON COLUMN snowflake_status.registry_error IS
    'what went wrong with the registry last; NULL if nothing did, or unless the user may read all settings';
COMMENT ON COLUMN snowflake_status.stats_reset_at IS
    'since when the counters below count: the start of the server, its last crash, or snowflake_reset_stats()';
COMMENT ON COLUMN snowflake_status.ids_issued IS 'IDs issued';
COMMENT ON COLUMN snowflake_status.busiest_second_ids IS
    'most IDs with timestamps of one second, without history_ids';
COMMENT ON COLUMN snowflake_status.ticks_exhausted IS 'ticks whose last sequence number was issued';
COMMENT ON COLUMN snowflake_status.borrowed_ids IS 'IDs with a timestamp ahead of the clock';
COMMENT ON COLUMN snowflake_status.history_ids IS 'IDs issued in past ticks, with clock_regression = history';
COMMENT ON COLUMN snowflake_status.clock_regressions IS 'how often the clock has gone back';
COMMENT ON COLUMN snowflake_status.largest_regression IS 'how far it went back at most';
COMMENT ON COLUMN snowflake_status.last_regression_at IS 'what the clock showed after it had last gone back';
COMMENT ON COLUMN snowflake_status.clock_waits IS
    'how often calls waited for the clock: for the next tick, or to catch up';
COMMENT ON COLUMN snowflake_status.clock_wait_time IS 'total time of these waits';
COMMENT ON COLUMN snowflake_status.mark_extensions IS 'how often the durable mark was written';
COMMENT ON COLUMN snowflake_status.mark_wait_time IS 'total time for which calls waited for these writes';
COMMENT ON COLUMN snowflake_status.refusals IS 'calls for IDs that failed with an error of this extension';
COMMENT ON COLUMN snowflake_status.last_refusal IS
    'error of the last of them, and what to do; NULL unless the user may read all settings';
COMMENT ON COLUMN snowflake_status.last_refusal_sqlstate IS 'its SQLSTATE';
COMMENT ON COLUMN snowflake_status.last_refusal_at IS 'when that call failed';
COMMENT ON COLUMN snowflake_status.library_version IS 'version of the library that the server has loaded';
COMMENT ON COLUMN snowflake_status.extension_version IS
    'version of the extension in this database; ALTER EXTENSION snowflake_pg UPDATE brings it to the version of the '
    'library';

-- For exporters, which drop intervals and texts without an error: every column is bigint or double precision, by the
-- name of its metric without the prefix.
CREATE VIEW snowflake_metrics AS
    SELECT coalesce(datacenter_id, 0)::bigint AS datacenter_id, worker_id::bigint,
           (state IN ('ready', 'idle')
            AND (problem_sqlstate IS NULL
                OR coalesce(durable_mark > clock_timestamp(), false)))::integer::bigint AS can_issue,
           pg_catalog.pg_is_in_recovery()::integer::bigint AS is_standby,
           (keeper_pid IS NOT NULL)::integer::bigint AS keeper_running,
           ids_issued AS ids_issued_total, max_ids_per_second, busiest_second_ids,
           busiest_second_ids::double precision / max_ids_per_second::double precision AS busiest_second_ratio,
           ticks_exhausted AS ticks_exhausted_total, borrowed_ids AS borrowed_ids_total,
           history_ids AS history_ids_total,
           extract(epoch FROM last_issued_at)::double precision AS last_issued_timestamp_seconds,
           extract(epoch FROM lead)::double precision AS lead_seconds,
           extract(epoch FROM horizon_at)::double precision AS horizon_timestamp_seconds,
           extract(epoch FROM durable_mark)::double precision AS durable_mark_timestamp_seconds,
           extract(epoch FROM mark_left)::double precision AS mark_left_seconds,
           mark_extensions AS mark_extensions_total,
           extract(epoch FROM mark_wait_time)::double precision AS mark_wait_seconds_total,
           clock_regressions AS clock_regressions_total,
           extract(epoch FROM largest_regression)::double precision AS largest_regression_seconds,
           extract(epoch FROM last_regression_at)::double precision AS last_regression_timestamp_seconds,
           clock_waits AS clock_waits_total,
           extract(epoch FROM clock_wait_time)::double precision AS clock_wait_seconds_total,
           refusals AS refusals_total,
           extract(epoch FROM last_refusal_at)::double precision AS last_refusal_timestamp_seconds,
           extract(epoch FROM lease_until - clock_timestamp())::double precision AS lease_left_seconds,
           extract(epoch FROM clock_offset)::double precision AS clock_offset_seconds,
           extract(epoch FROM usable_until - clock_timestamp())::double precision AS layout_left_seconds,
           (regexp_replace(library_version, '[.][0-9]+$'::text, ''::text)
               <> regexp_replace(extension_version, '[.][0-9]+$'::text, ''::text))::integer::bigint AS versions_differ,
           CASE WHEN state <> 'not preloaded'
               AND pg_catalog.current_setting('snowflake_pg.track_writers'::text, true)::boolean THEN
               (SELECT coalesce(extract(epoch FROM max(clock_timestamp() - first_id_at)), 0) FROM snowflake_writers)
               END::double precision AS oldest_writer_seconds,
           extract(epoch FROM stats_reset_at)::double precision AS stats_reset_timestamp_seconds
    FROM snowflake_status;
GRANT SELECT ON snowflake_metrics TO PUBLIC;
COMMENT ON VIEW snowflake_metrics IS
    'snowflake_status as numbers, for exporters of metrics, with their names: _total for counters, _seconds for '
    'lengths of time, _timestamp_seconds for times in Unix seconds';
COMMENT ON COLUMN snowflake_metrics.can_issue IS
    '1 if state is ready or idle, else 0; 0 also if the durable mark is used up and cannot be written';
COMMENT ON COLUMN snowflake_metrics.is_standby IS
    '1 if the server is a standby, or has not finished its recovery, else 0';
COMMENT ON COLUMN snowflake_metrics.keeper_running IS
    '1 if the background worker that writes the durable mark runs, else 0';
COMMENT ON COLUMN snowflake_metrics.busiest_second_ratio IS
    'busiest_second_ids / max_ids_per_second: 1 is the limit of the layout';
COMMENT ON COLUMN snowflake_metrics.lease_left_seconds IS 'until lease_until, by the clock of this server';
COMMENT ON COLUMN snowflake_metrics.layout_left_seconds IS 'until usable_until';
COMMENT ON COLUMN snowflake_metrics.versions_differ IS
    '1 if library_version and extension_version differ by more than corrections: run ALTER EXTENSION snowflake_pg '
    'UPDATE, or restart the server';
COMMENT ON COLUMN snowflake_metrics.oldest_writer_seconds IS
    'how long ago the oldest transaction that has not ended drew its first ID, which holds back readers by ID; 0 '
    'without one';

-- The servers of a fleet

-- Types instead of OUT parameters, which would make \df wider.
CREATE TYPE snowflake_identity AS (
    system_identifier bigint, datacenter_id integer, worker_id integer, worker_id_source text, state text, layout text,
    clock timestamptz, library_version text, in_recovery boolean);
COMMENT ON TYPE snowflake_identity IS 'row of snowflake_identity()';
COMMENT ON COLUMN snowflake_identity.system_identifier IS
    'as in pg_control_system(): equal for copies of one database cluster';
COMMENT ON COLUMN snowflake_identity.datacenter_id IS 'data center; NULL if the layout has none';
COMMENT ON COLUMN snowflake_identity.worker_id IS 'worker ID; NULL if there is none';
COMMENT ON COLUMN snowflake_identity.worker_id_source IS 'as in snowflake_status';
COMMENT ON COLUMN snowflake_identity.state IS 'as in snowflake_status';
COMMENT ON COLUMN snowflake_identity.layout IS 'spelled out, with its epoch; NULL if it is invalid';
COMMENT ON COLUMN snowflake_identity.clock IS 'what the clock of the server shows';
COMMENT ON COLUMN snowflake_identity.library_version IS 'version of the library, which can be newer than the extension';
COMMENT ON COLUMN snowflake_identity.in_recovery IS 'whether the server is a standby, or has not finished its recovery';

CREATE FUNCTION snowflake_identity() RETURNS snowflake_identity
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_identity_wrapper';
COMMENT ON FUNCTION snowflake_identity() IS
    'what tells this server from others: cluster, worker ID, layout, clock: SELECT * FROM snowflake_identity()';

CREATE TYPE snowflake_fleet_member AS (
    server integer, address text, state text, system_identifier bigint, datacenter_id integer, worker_id integer,
    layout text, clock_offset interval, problem text);
COMMENT ON TYPE snowflake_fleet_member IS 'row of snowflake_check_fleet(servers)';
COMMENT ON COLUMN snowflake_fleet_member.server IS
    'its number in the array, from 1 on; 0 for this server';
COMMENT ON COLUMN snowflake_fleet_member.address IS
    'name of the foreign server; or host and port of the connection string, or its service';
COMMENT ON COLUMN snowflake_fleet_member.layout IS 'NULL if the library is not preloaded there';
COMMENT ON COLUMN snowflake_fleet_member.clock_offset IS
    'how far its clock is ahead of this server''s, give or take half of the round trip';
COMMENT ON COLUMN snowflake_fleet_member.problem IS 'what is wrong; NULL if nothing is';

-- Not for PUBLIC: it connects from this server, as dblink does. PARALLEL UNSAFE, since it may rename its session. Not
-- STRICT: a fleet of which nobody was asked would look sound, so NULL is an error.
CREATE FUNCTION snowflake_check_fleet(servers text[]) RETURNS SETOF snowflake_fleet_member
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'snowflake_check_fleet_wrapper';
COMMENT ON FUNCTION snowflake_check_fleet(text[]) IS
    'ask other servers who they are, by names of foreign servers or by connection strings: SELECT * FROM '
    'snowflake_check_fleet(''{pg-2, host=pg-3 dbname=postgres}''); a row for this server, and one for each of them, '
    'with what is wrong';
REVOKE ALL ON FUNCTION snowflake_check_fleet(text[]) FROM PUBLIC;

CREATE TYPE snowflake_life AS (
    number bigint, life text, is_own boolean, datacenter_id integer, worker_id integer, layout text,
    started_at timestamptz,
    reason text, begins_at timestamptz, reserved_until timestamptz, state text, ended_at timestamptz);
COMMENT ON TYPE snowflake_life IS 'row of snowflake_lives()';
COMMENT ON COLUMN snowflake_life.number IS 'counts the lives in a data directory, of which the last 512 are kept';
COMMENT ON COLUMN snowflake_life.life IS 'random number of the life';
COMMENT ON COLUMN snowflake_life.is_own IS
    'whether it is a life of this server, and not of the one that its data directory was copied from';
COMMENT ON COLUMN snowflake_life.started_at IS 'what the clock of the server showed when the life began';
COMMENT ON COLUMN snowflake_life.reason IS
    'why its IDs began where they did: restart, promotion or recovery, no mark, mark in WAL, lease, other worker, and '
    'others';
COMMENT ON COLUMN snowflake_life.begins_at IS 'no ID of the life has an earlier time';
COMMENT ON COLUMN snowflake_life.reserved_until IS
    'no ID of the life has this time or a later one; if it runs or was stopped, the end of the last ID';
COMMENT ON COLUMN snowflake_life.state IS
    'running; stopped; crashed; mark lost (crashed, and its mark was not found afterwards); given away (its server '
    'continued with another worker or lease); unknown (only its own server knows)';
COMMENT ON COLUMN snowflake_life.ended_at IS 'what the clock of the server showed; NULL after a crash';

CREATE FUNCTION snowflake_lives() RETURNS SETOF snowflake_life
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE ROWS 50 AS 'MODULE_PATHNAME', 'snowflake_lives_wrapper';
COMMENT ON FUNCTION snowflake_lives() IS
    'when this server issued IDs, and of which worker; a row for each of its lives: SELECT * FROM snowflake_lives()';

CREATE FUNCTION snowflake_lives_for_servers(known_version integer) RETURNS SETOF jsonb
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE ROWS 50 AS 'MODULE_PATHNAME', 'snowflake_lives_for_servers_wrapper';
COMMENT ON FUNCTION snowflake_lives_for_servers(integer) IS
    'not to be called: what snowflake_audit_fleet() of another server reads; known_version is the newest version of '
    'this that it knows';

CREATE TYPE snowflake_audit_finding AS (
    result text, datacenter_id integer, worker_id integer, layout text, lives bigint, begins_at timestamptz,
    ends_at timestamptz, detail text);
COMMENT ON TYPE snowflake_audit_finding IS 'row of snowflake_audit_fleet(servers)';
COMMENT ON COLUMN snowflake_audit_finding.result IS
    'no overlap; overlap: IDs can have been issued twice; possible overlap: only if a life used all that it had '
    'reserved; not seen: these servers cannot tell';
COMMENT ON COLUMN snowflake_audit_finding.worker_id IS 'NULL in the first row, which is about all workers';
COMMENT ON COLUMN snowflake_audit_finding.lives IS 'how many lives were compared';
COMMENT ON COLUMN snowflake_audit_finding.begins_at IS
    'time of their first ID, or of the first possible duplicate';
COMMENT ON COLUMN snowflake_audit_finding.ends_at IS 'end of their IDs, or of the possible duplicates';
COMMENT ON COLUMN snowflake_audit_finding.detail IS
    'which lives overlap, and where their IDs are; or what could not be seen';

-- Not for PUBLIC, as snowflake_check_fleet().
CREATE FUNCTION snowflake_audit_fleet(servers text[]) RETURNS SETOF snowflake_audit_finding
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'snowflake_audit_fleet_wrapper';
COMMENT ON FUNCTION snowflake_audit_fleet(text[]) IS
    'whether two servers have issued the same IDs, by what they know of their lives: SELECT * FROM '
    'snowflake_audit_fleet(''{pg-2, host=pg-3 dbname=postgres}''); the first row is the answer';
REVOKE ALL ON FUNCTION snowflake_audit_fleet(text[]) FROM PUBLIC;

-- VOLATILE, since the server issues IDs meanwhile.
CREATE FUNCTION snowflake_issued_elsewhere(id bigint) RETURNS boolean
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_issued_elsewhere_wrapper';
COMMENT ON FUNCTION snowflake_issued_elsewhere(bigint) IS
    'true if an ID has the worker ID of this server, and this server has not issued it; false proves nothing; NULL on '
    'a server that issues no IDs';

-- Administration: only for superusers by default

CREATE FUNCTION snowflake_advance(past bigint, force boolean DEFAULT false) RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_advance_wrapper';
COMMENT ON FUNCTION snowflake_advance(bigint, boolean) IS
    'make all new IDs greater than past, as setval() does for sequences: for IDs that were restored or come from '
    'elsewhere; force it if past is more than snowflake_pg.max_forward_jump ahead of the clock';

CREATE FUNCTION snowflake_accept_mark(force boolean DEFAULT false) RETURNS timestamptz
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_accept_mark_wrapper';
COMMENT ON FUNCTION snowflake_accept_mark(boolean) IS
    'accept the durable mark of a copied server, of another cluster or of another layout, when no other server issues '
    'IDs of this worker; force also a layout whose IDs could equal old ones; returns when IDs begin, or NULL if there '
    'is nothing to accept';

CREATE FUNCTION snowflake_reset_mark(floor timestamptz) RETURNS timestamptz
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_reset_mark_wrapper';
COMMENT ON FUNCTION snowflake_reset_mark(timestamptz) IS
    'replace a damaged durable mark, or one that was reset too far ahead; floor must be later than every ID that this '
    'server has issued: now() if the clock has always been right; returns when IDs begin';

CREATE FUNCTION snowflake_accept_clock() RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_accept_clock_wrapper';
COMMENT ON FUNCTION snowflake_accept_clock() IS
    'trust the clock at once, instead of after a minute, when it has jumped ahead by more than '
    'snowflake_pg.max_forward_jump';

CREATE FUNCTION snowflake_reset_stats() RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_reset_stats_wrapper';
COMMENT ON FUNCTION snowflake_reset_stats() IS
    'reset the counters in snowflake_status';

REVOKE ALL ON FUNCTION
    snowflake_advance(bigint, boolean), snowflake_accept_mark(boolean), snowflake_reset_mark(timestamptz),
    snowflake_accept_clock(), snowflake_reset_stats() FROM PUBLIC;

-- Warns if the library is not preloaded.
SELECT FROM snowflake_status;
