-- snowflake_pg: what SQL sees. Files beside this one are joined to it: serial, remake, adopt and revert.
--
-- VOLATILE: a new value every call. STABLE: depends on snowflake_pg.layout, fixed while a server runs that preloads.
-- STRICT: NULL gives NULL. PARALLEL SAFE: the generator is in shared memory.
-- PUBLIC may issue and read IDs. What only a DBA may do is revoked from PUBLIC, below.
--
-- Whoever may create in the schema of the extension could have an operator or a function there preferred to a conversion. So
-- types are exact, and a function that takes a literal is named with pg_catalog.

\echo Use "CREATE EXTENSION snowflake_pg" to load this file. \quit

-- Issuing ------------------------------------------------------------------------------------------------------------

-- Not to be called. These tell COPY that a default reads no table.
CREATE FUNCTION snowflake_nextval_in_copy(internal) RETURNS bigint
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_nextval';
COMMENT ON FUNCTION snowflake_nextval_in_copy(internal) IS
    'not to be called: snowflake_nextval() as COPY calls it';
CREATE FUNCTION snowflake_nextval_tagged_in_copy(internal, bigint) RETURNS bigint
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_nextval_tagged_in_copy_wrapper';
COMMENT ON FUNCTION snowflake_nextval_tagged_in_copy(internal, bigint) IS
    'not to be called: snowflake_nextval_tagged() as COPY calls it';
CREATE FUNCTION snowflake_nextval_support(internal) RETURNS internal
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_nextval_support_wrapper';
COMMENT ON FUNCTION snowflake_nextval_support(internal) IS
    'planner support for snowflake_nextval(): lets COPY insert many rows at once';

CREATE FUNCTION snowflake_nextval() RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE SUPPORT snowflake_nextval_support
    AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION snowflake_nextval() IS
    'next ID, greater than every ID that this server has returned (unless clock_regression is history); for id bigint PRIMARY KEY DEFAULT snowflake_nextval()';

-- The same function. Rails' fixtures and others take a default with "nextval" in it for one with a sequence.
CREATE FUNCTION snowflake_id() RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE SUPPORT snowflake_nextval_support
    AS 'MODULE_PATHNAME', 'snowflake_nextval';
COMMENT ON FUNCTION snowflake_id() IS
    'next ID: snowflake_nextval() by another name, for tools that take "nextval" in a default for a sequence';

CREATE FUNCTION snowflake_nextval_tagged(tag bigint) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE SUPPORT snowflake_nextval_support
    AS 'MODULE_PATHNAME', 'snowflake_nextval_tagged_wrapper';
COMMENT ON FUNCTION snowflake_nextval_tagged(bigint) IS
    'next ID with a number of the application, such as a logical shard, in the field h of the layout; unique whatever the tag is';

CREATE FUNCTION snowflake_nextvals(count integer) RETURNS SETOF bigint
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE ROWS 1000 AS 'MODULE_PATHNAME', 'snowflake_nextvals_wrapper';
COMMENT ON FUNCTION snowflake_nextvals(integer) IS
    'next IDs, 1 to 1000000 in ascending order, all taken when the call begins';

CREATE FUNCTION snowflake_nextblock(count integer, OUT first bigint, OUT last bigint)
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_nextblock_wrapper';
COMMENT ON FUNCTION snowflake_nextblock(integer) IS
    'first and last of so many adjacent IDs of one tick, for clients that count by themselves; at most as many as a tick has, 4096 in layout flat';

-- PARALLEL RESTRICTED: a worker of a parallel query has a last ID of its own.
CREATE FUNCTION snowflake_lastval() RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'snowflake_lastval_wrapper';
COMMENT ON FUNCTION snowflake_lastval() IS
    'last ID that this session has taken, as lastval() is for sequences';

CREATE FUNCTION snowflake_fill() RETURNS trigger
    LANGUAGE c VOLATILE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION snowflake_fill() IS
    'trigger function that gives an inserted row an ID where the column that it names is NULL, as in rows from postgres_fdw: EXECUTE FUNCTION snowflake_fill(''id'')';

-- Layouts ------------------------------------------------------------------------------------------------------------
--
-- A function that depends on snowflake_pg.layout is STABLE. With the layout as its last argument it is IMMUTABLE, so that an index
-- or a generated column can use it. The planner adds the layout to calls in queries.

-- The functions of views declare no columns, which would make \df wider. The library returns the columns that the view declares.
CREATE FUNCTION snowflake_get_layouts() RETURNS SETOF record
    LANGUAGE c STABLE STRICT PARALLEL SAFE ROWS 17 AS 'MODULE_PATHNAME', 'snowflake_get_layouts_wrapper';
COMMENT ON FUNCTION snowflake_get_layouts() IS
    'not to be called: use the view snowflake_layouts';

CREATE VIEW snowflake_layouts AS
    SELECT * FROM snowflake_get_layouts() AS layouts(
        name text, fields text, unit interval, epoch timestamptz, last_timestamp timestamptz, years double precision,
        workers bigint, max_ids_per_second bigint, can_generate boolean, source text);
GRANT SELECT ON snowflake_layouts TO PUBLIC;
COMMENT ON VIEW snowflake_layouts IS
    'named layouts, for snowflake_pg.layout and for functions that take a layout';
COMMENT ON COLUMN snowflake_layouts.fields IS
    'widths of timestamp (t), data center (d), worker (w) and sequence (s), from the highest bits to the lowest';
COMMENT ON COLUMN snowflake_layouts.unit IS 'length of a tick';
COMMENT ON COLUMN snowflake_layouts.epoch IS 'first timestamp';
COMMENT ON COLUMN snowflake_layouts.years IS 'how long the timestamps last, from the epoch';
COMMENT ON COLUMN snowflake_layouts.workers IS 'number of servers in all data centers together';
COMMENT ON COLUMN snowflake_layouts.max_ids_per_second IS 'of one server';
COMMENT ON COLUMN snowflake_layouts.can_generate IS
    'whether a server can issue IDs now: at most 63 bits, timestamp highest, last timestamp not past; if it is, add a later epoch=';
COMMENT ON COLUMN snowflake_layouts.source IS 'where the layout is published';

-- Decoding and composing ---------------------------------------------------------------------------------------------

CREATE FUNCTION snowflake_decode(
    id bigint, OUT issued_at timestamptz, OUT datacenter_id integer, OUT worker_id integer, OUT sequence integer,
    OUT tag integer)
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_decode_wrapper';
COMMENT ON FUNCTION snowflake_decode(bigint) IS
    'fields of an ID: when, by which data center and worker, its number in that tick, and its tag; NULL for a field that the layout lacks';

CREATE FUNCTION snowflake_decode(
    id bigint, layout text,
    OUT issued_at timestamptz, OUT datacenter_id integer, OUT worker_id integer, OUT sequence integer,
    OUT tag integer)
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_decode_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_decode(bigint, text) IS
    'fields of an ID of this layout, such as discord, or t41 w10 s12 epoch=2024-01-01T00:00:00Z; for indexes and generated columns';

-- STABLE: it looks at the clock.
CREATE FUNCTION snowflake_decode_all(
    id bigint, OUT layout text, OUT issued_at timestamptz, OUT datacenter_id integer, OUT worker_id integer,
    OUT sequence integer, OUT tag integer) RETURNS SETOF record
    LANGUAGE c STABLE STRICT PARALLEL SAFE ROWS 10 AS 'MODULE_PATHNAME', 'snowflake_decode_all_wrapper';
COMMENT ON FUNCTION snowflake_decode_all(bigint) IS
    'fields of an ID of unknown origin under each named layout that it fits, the latest time first, without times more than a day ahead';

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
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_explain_with_layout_wrapper';
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

-- Selecting by time, with an index on the ID -------------------------------------------------------------------------

CREATE FUNCTION snowflake_min_id(at timestamptz) RETURNS bigint
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_min_id_wrapper';
COMMENT ON FUNCTION snowflake_min_id(timestamptz) IS
    'lowest ID of any worker in the tick of a time; 0 for -infinity, the largest bigint for infinity';

CREATE FUNCTION snowflake_min_id(at timestamptz, layout text) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_min_id_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_min_id(timestamptz, text) IS
    'lowest ID of this layout in the tick of a time; 0 for -infinity, the largest bigint for infinity';

-- Not STRICT, so that the planner can put the two comparisons in its place. NULLs behave as they do in BETWEEN.
CREATE FUNCTION snowflake_within(id bigint, since timestamptz, until timestamptz DEFAULT 'infinity') RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN id >= snowflake_min_id(since) AND id < snowflake_min_id(until);
COMMENT ON FUNCTION snowflake_within(bigint, timestamptz, timestamptz) IS
    'whether an ID was issued in the tick of since or later, and before the tick of until; uses an index on the ID';

CREATE FUNCTION snowflake_within(id bigint, since timestamptz, until timestamptz, layout text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN id >= snowflake_min_id(since, layout) AND id < snowflake_min_id(until, layout);
COMMENT ON FUNCTION snowflake_within(bigint, timestamptz, timestamptz, text) IS
    'whether an ID of this layout was issued in the tick of since or later, and before the tick of until';

CREATE FUNCTION snowflake_interval(length interval) RETURNS bigint
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_interval_wrapper';
COMMENT ON FUNCTION snowflake_interval(interval) IS
    'difference between two IDs that were issued this long apart: the width of a partition by number; a day has 24 hours';

CREATE FUNCTION snowflake_interval(length interval, layout text) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_interval_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_interval(interval, text) IS
    'difference between two IDs of this layout that were issued this long apart';

-- Partitions by time --------------------------------------------------------------------------------------------------
--
-- Not STRICT: no layout means snowflake_pg.layout. NULL for another argument gives no rows.

-- Types instead of OUT parameters, which would make \df wider.
CREATE TYPE snowflake_partition AS (
    partition regclass, since timestamptz, until timestamptz, rows bigint, bytes bigint);
COMMENT ON TYPE snowflake_partition IS 'row of snowflake_partitions() and snowflake_create_partitions()';
COMMENT ON COLUMN snowflake_partition.since IS 'first timestamp; NULL for a default partition';
COMMENT ON COLUMN snowflake_partition.until IS 'end, which is the first timestamp of the next partition; NULL for a default partition';
COMMENT ON COLUMN snowflake_partition.rows IS 'as ANALYZE has estimated them; NULL if it has never run';
COMMENT ON COLUMN snowflake_partition.bytes IS 'size with indexes and TOAST';

-- PARALLEL UNSAFE: it creates tables, as the owner of the parent. The caller must have the privileges of that owner.
-- If the type of the key is a domain, its CHECK must allow the bounds.
CREATE FUNCTION snowflake_create_partitions(
    parent regclass, every interval, ahead integer, layout text DEFAULT NULL) RETURNS SETOF snowflake_partition
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10
    AS 'MODULE_PATHNAME', 'snowflake_create_partitions_wrapper';
COMMENT ON FUNCTION snowflake_create_partitions(regclass, interval, integer, text) IS
    'create the missing partitions of a table that is partitioned by range of its ID, for the current period, such as a day, and for so many periods ahead; returns those created';

CREATE FUNCTION snowflake_partitions(parent regclass, layout text DEFAULT NULL) RETURNS SETOF snowflake_partition
    LANGUAGE c VOLATILE PARALLEL SAFE ROWS 100 AS 'MODULE_PATHNAME', 'snowflake_partitions_wrapper';
COMMENT ON FUNCTION snowflake_partitions(regclass, text) IS
    'partitions of a table that is partitioned by range of its ID: from when until when, rows and size; a default partition is last';

CREATE TYPE snowflake_old_partition AS (
    command text, partition text, since timestamptz, until timestamptz, rows bigint, bytes bigint);
COMMENT ON TYPE snowflake_old_partition IS 'row of snowflake_drop_partitions(); columns but for command as in snowflake_partition';
COMMENT ON COLUMN snowflake_old_partition.command IS 'to be run, or with dry_run false, run';
COMMENT ON COLUMN snowflake_old_partition.partition IS 'name with that of its schema, since the table may be gone';

CREATE FUNCTION snowflake_drop_partitions(
    parent regclass, before timestamptz, dry_run boolean DEFAULT true, layout text DEFAULT NULL)
    RETURNS SETOF snowflake_old_partition
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10
    AS 'MODULE_PATHNAME', 'snowflake_drop_partitions_wrapper';
COMMENT ON FUNCTION snowflake_drop_partitions(regclass, timestamptz, boolean, text) IS
    'commands for \gexec that detach and drop the partitions that end before a time, while readers and writers continue; with dry_run false, drops them at once';

-- Reading by ID ------------------------------------------------------------------------------------------------------

CREATE FUNCTION snowflake_horizon_support(internal) RETURNS internal
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_horizon_support_wrapper';
COMMENT ON FUNCTION snowflake_horizon_support(internal) IS
    'planner support for snowflake_horizon(): refuses queries that read a table, which would not see all rows below the horizon';

CREATE FUNCTION snowflake_horizon() RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE SUPPORT snowflake_horizon_support
    AS 'MODULE_PATHNAME', 'snowflake_horizon_wrapper';
COMMENT ON FUNCTION snowflake_horizon() IS
    'ID below which no row can appear any more: every transaction of this server that has drawn a smaller ID has ended; to be read in a statement before the query';

-- Not STRICT: the first argument is NULL, and only its type counts.
CREATE FUNCTION snowflake_poll(
    source anyelement, after bigint, max_rows integer DEFAULT 1000, key name DEFAULT NULL) RETURNS SETOF anyelement
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1000 AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION snowflake_poll(anyelement, bigint, integer, name) IS
    'rows of a table after an ID, in order and below the horizon, so that a reader that goes on after the last one misses none: SELECT * FROM snowflake_poll(NULL::orders, 0)';

CREATE FUNCTION snowflake_get_writers() RETURNS SETOF record
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE ROWS 10 AS 'MODULE_PATHNAME', 'snowflake_get_writers_wrapper';
COMMENT ON FUNCTION snowflake_get_writers() IS
    'not to be called: use the view snowflake_writers';

CREATE VIEW snowflake_writers AS
    SELECT pid, gid, first_id, least(coalesce(greatest(snowflake_timestamp(first_id), xact_start), prepared), clock_timestamp()) AS since,
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
    'first ID that the transaction has drawn, without its tag, or a bound below it; NULL if it was prepared before the server started: there is no horizon until it ends';
COMMENT ON COLUMN snowflake_writers.since IS
    'when it has drawn the ID; if first_id is NULL, when the transaction was prepared';

-- IDs for outsiders --------------------------------------------------------------------------------------------------

CREATE FUNCTION snowflake_encrypt(id bigint, key bytea) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE COST 100 AS 'MODULE_PATHNAME', 'snowflake_encrypt_wrapper';
COMMENT ON FUNCTION snowflake_encrypt(bigint, bytea) IS
    'another ID, never negative, that shows neither time nor server nor volume to whoever lacks the key: FF1 of NIST SP 800-38G with AES, keys of 16, 24 or 32 bytes';

CREATE FUNCTION snowflake_decrypt(id bigint, key bytea) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE COST 100 AS 'MODULE_PATHNAME', 'snowflake_decrypt_wrapper';
COMMENT ON FUNCTION snowflake_decrypt(bigint, bytea) IS
    'the ID that snowflake_encrypt() has encrypted with this key; with another key, some other ID';

-- Text and UUID: the same number, so no layout is needed ------------------------------------------------------------

-- Not STRICT: no alphabet means the usual one. NULL for another argument gives NULL.
CREATE FUNCTION snowflake_to_text(id bigint, encoding text, alphabet text DEFAULT NULL) RETURNS text
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_to_text_wrapper';
COMMENT ON FUNCTION snowflake_to_text(bigint, text, text) IS
    'ID as a short text, for URLs: base62, base58, crockford32 (13 characters) or hex (16); the last two sort as the ID does, with COLLATE "C"; base62 and base58 take another alphabet of so many ASCII characters';

CREATE FUNCTION snowflake_from_text(text text, encoding text, alphabet text DEFAULT NULL) RETURNS bigint
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_from_text_wrapper';
COMMENT ON FUNCTION snowflake_from_text(text, text, text) IS
    'ID from the text of snowflake_to_text(); crockford32 and hex in any letter case, crockford32 also with I or L for 1, O for 0, and hyphens';

CREATE FUNCTION snowflake_to_uuid(id bigint) RETURNS uuid
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_to_uuid_wrapper';
COMMENT ON FUNCTION snowflake_to_uuid(bigint) IS
    'ID as a UUID of version 8 (RFC 9562), which sorts as the ID does';

CREATE FUNCTION snowflake_from_uuid(uuid uuid) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_from_uuid_wrapper';
COMMENT ON FUNCTION snowflake_from_uuid(uuid) IS
    'ID from the UUID of snowflake_to_uuid(); an error for any other UUID';

-- The type snowflake: a bigint that is a string in JSON, as JavaScript's numbers are exact only to 2^53 ---------------
--
-- It uses the operators of int8, and its operator classes for btree, hash and brin, as varchar uses those of text. With classes of
-- its own, a join with a bigint could not use the index on the bigint.

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

-- So that min and max are strings in JSON, too. They read all rows: an aggregate uses an index only by an operator of its own type
-- in the operator family of the index. ORDER BY id DESC LIMIT 1 reads one row.
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

-- Monitoring ---------------------------------------------------------------------------------------------------------

CREATE FUNCTION snowflake_get_status() RETURNS record
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_get_status_wrapper';
COMMENT ON FUNCTION snowflake_get_status() IS
    'not to be called: use the view snowflake_status';

CREATE VIEW snowflake_status AS
    SELECT status.*, (SELECT extversion FROM pg_extension WHERE extname = 'snowflake_pg') AS extension_version
    FROM snowflake_get_status() AS status(
        state text, problem text, problem_sqlstate text,
        worker_id integer, worker_id_source text, datacenter_id integer, layout text, usable_until timestamptz,
        max_ids_per_second bigint,
        clock_regression text, sequence_exhaustion text, sequence_start text,
        max_borrow interval, max_wait interval, reserve_ahead interval,
        last_issued_at timestamptz, lead interval, durable_mark timestamptz, mark_left interval, keeper_pid integer,
        state_directory text,
        lease_until timestamptz, clock_offset interval, registry_error text,
        stats_reset timestamptz, ids_issued bigint, busiest_second bigint, ticks_exhausted bigint, borrowed_ids bigint,
        history_ids bigint, clock_regressions bigint, largest_regression interval, last_regression_at timestamptz,
        waits bigint, wait_time interval, mark_extensions bigint, mark_wait_time interval,
        refusals bigint, last_refusal text, last_refusal_sqlstate text, last_refusal_at timestamptz,
        library_version text);
GRANT SELECT ON snowflake_status TO PUBLIC;
COMMENT ON VIEW snowflake_status IS
    'one row about this server: its state, settings in force, durable mark, and counters';
COMMENT ON COLUMN snowflake_status.state IS
    'ready, or idle if no ID was issued since the server started; others are in docs/administration.md';
COMMENT ON COLUMN snowflake_status.problem IS
    'why no ID is issued, or what the background worker fails to do, and what to do; NULL if nothing is wrong, or unless the user may read all settings';
COMMENT ON COLUMN snowflake_status.problem_sqlstate IS 'its SQLSTATE; NULL if nothing is wrong';
COMMENT ON COLUMN snowflake_status.worker_id IS 'worker ID of this server; NULL if there is none';
COMMENT ON COLUMN snowflake_status.worker_id_source IS 'where it comes from: configuration, registry, or as in: hostname pg-3';
COMMENT ON COLUMN snowflake_status.datacenter_id IS 'data center of this server; NULL if there is none';
COMMENT ON COLUMN snowflake_status.layout IS 'snowflake_pg.layout, with its fields in parentheses';
COMMENT ON COLUMN snowflake_status.usable_until IS 'last timestamp of the layout';
COMMENT ON COLUMN snowflake_status.max_ids_per_second IS 'most IDs that the layout lets this server issue in a second';
COMMENT ON COLUMN snowflake_status.clock_regression IS 'this and the next five columns: the parameters of these names';
COMMENT ON COLUMN snowflake_status.last_issued_at IS
    'timestamp of the last ID; NULL if none was issued since the server started';
COMMENT ON COLUMN snowflake_status.lead IS
    'how far last_issued_at is ahead of the clock; 0 unless the clock has gone back or the server has just started';
COMMENT ON COLUMN snowflake_status.durable_mark IS
    'time on disk that no ID reaches, and at which IDs continue after a crash';
COMMENT ON COLUMN snowflake_status.mark_left IS
    'how far the durable mark is ahead of the clock; NULL unless IDs were issued within snowflake_pg.keep_warm';
COMMENT ON COLUMN snowflake_status.keeper_pid IS
    'process ID of the background worker that writes the durable mark; NULL if it does not run: calls then write the mark themselves, except to WAL';
COMMENT ON COLUMN snowflake_status.state_directory IS
    'snowflake_pg.state_directory; NULL unless the user may read all settings';
COMMENT ON COLUMN snowflake_status.lease_until IS
    'when IDs end unless the registry renews the lease; NULL without a registry';
COMMENT ON COLUMN snowflake_status.clock_offset IS
    'how far the clock was ahead of the registry''s when they were compared last; NULL without a registry';
COMMENT ON COLUMN snowflake_status.registry_error IS
    'what went wrong with the registry last; NULL if nothing did, or unless the user may read all settings';
COMMENT ON COLUMN snowflake_status.stats_reset IS
    'since when the counters after it count: when the server started, after its last crash, or snowflake_stats_reset()';
COMMENT ON COLUMN snowflake_status.ids_issued IS 'IDs issued';
COMMENT ON COLUMN snowflake_status.busiest_second IS 'most IDs with timestamps of one second, without history_ids';
COMMENT ON COLUMN snowflake_status.ticks_exhausted IS 'ticks whose last sequence number was issued';
COMMENT ON COLUMN snowflake_status.borrowed_ids IS 'IDs with a timestamp ahead of the clock';
COMMENT ON COLUMN snowflake_status.history_ids IS 'IDs issued in past ticks, with clock_regression = history';
COMMENT ON COLUMN snowflake_status.clock_regressions IS 'how often the clock has gone back';
COMMENT ON COLUMN snowflake_status.largest_regression IS 'by how much it went back at most';
COMMENT ON COLUMN snowflake_status.last_regression_at IS 'what the clock showed after it had last gone back';
COMMENT ON COLUMN snowflake_status.waits IS 'how often calls waited for the clock: for the next tick, or to catch up';
COMMENT ON COLUMN snowflake_status.wait_time IS 'how long they waited for the clock in all';
COMMENT ON COLUMN snowflake_status.mark_extensions IS 'how often the durable mark was written';
COMMENT ON COLUMN snowflake_status.mark_wait_time IS 'how long calls waited for these writes in all';
COMMENT ON COLUMN snowflake_status.refusals IS 'calls for IDs that failed with an error of this extension';
COMMENT ON COLUMN snowflake_status.last_refusal IS
    'error of the last of them, and what to do; NULL unless the user may read all settings';
COMMENT ON COLUMN snowflake_status.last_refusal_sqlstate IS 'its SQLSTATE';
COMMENT ON COLUMN snowflake_status.last_refusal_at IS 'when it was';
COMMENT ON COLUMN snowflake_status.library_version IS 'version of the library that the server has loaded';
COMMENT ON COLUMN snowflake_status.extension_version IS
    'version of the extension in this database; ALTER EXTENSION snowflake_pg UPDATE brings it to that of the library';

-- For exporters, which drop intervals and texts without an error. Seconds and points in time, in Unix seconds, are double precision.
CREATE VIEW snowflake_metrics AS
    SELECT (state IN ('ready', 'idle')
            AND (problem_sqlstate IS NULL OR coalesce(durable_mark > clock_timestamp(), false)))::integer::bigint AS can_issue,
           (state IN ('standby', 'shared worker'))::integer::bigint AS is_standby,
           datacenter_id::bigint, worker_id::bigint,
           (keeper_pid IS NOT NULL)::integer::bigint AS keeper_running, keeper_pid::bigint,
           ids_issued, max_ids_per_second, busiest_second,
           busiest_second::double precision / max_ids_per_second::double precision AS busiest_second_share,
           ticks_exhausted, borrowed_ids, history_ids,
           extract(epoch FROM last_issued_at)::double precision AS last_issued_at,
           extract(epoch FROM lead)::double precision AS lead_seconds,
           extract(epoch FROM durable_mark)::double precision AS durable_mark,
           extract(epoch FROM mark_left)::double precision AS mark_left_seconds,
           mark_extensions, extract(epoch FROM mark_wait_time)::double precision AS mark_wait_seconds,
           clock_regressions, extract(epoch FROM largest_regression)::double precision AS largest_regression_seconds,
           extract(epoch FROM last_regression_at)::double precision AS last_regression_at,
           waits, extract(epoch FROM wait_time)::double precision AS wait_seconds,
           refusals, extract(epoch FROM last_refusal_at)::double precision AS last_refusal_at,
           extract(epoch FROM lease_until - clock_timestamp())::double precision AS lease_left_seconds,
           extract(epoch FROM clock_offset)::double precision AS clock_offset_seconds,
           extract(epoch FROM usable_until - clock_timestamp())::double precision / 31556952::double precision AS years_left,
           (library_version <> extension_version)::integer::bigint AS versions_differ,
           CASE WHEN state <> 'not preloaded' AND pg_catalog.current_setting('snowflake_pg.track_writers'::text, true)::boolean THEN
               (SELECT coalesce(extract(epoch FROM max(clock_timestamp() - since)), 0) FROM snowflake_writers)
               END::double precision AS oldest_writer_seconds,
           extract(epoch FROM stats_reset)::double precision AS stats_reset
    FROM snowflake_status;
GRANT SELECT ON snowflake_metrics TO PUBLIC;
COMMENT ON VIEW snowflake_metrics IS
    'snowflake_status as numbers, for exporters of metrics: times in Unix seconds, lengths of time in seconds; columns without a comment are as there';
COMMENT ON COLUMN snowflake_metrics.can_issue IS
    '1 if state is ready or idle, else 0; 0 also if the durable mark is used up and cannot be written';
COMMENT ON COLUMN snowflake_metrics.is_standby IS '1 if state is standby or shared worker, else 0';
COMMENT ON COLUMN snowflake_metrics.keeper_running IS '1 if the background worker that writes the durable mark runs, else 0';
COMMENT ON COLUMN snowflake_metrics.busiest_second_share IS
    'busiest_second / max_ids_per_second: 1 is the limit of the layout';
COMMENT ON COLUMN snowflake_metrics.lease_left_seconds IS 'until lease_until, by the clock of this server';
COMMENT ON COLUMN snowflake_metrics.years_left IS 'until usable_until, in years of 365.2425 days';
COMMENT ON COLUMN snowflake_metrics.versions_differ IS
    '1 if library_version and extension_version differ: run ALTER EXTENSION snowflake_pg UPDATE, or restart the server';
COMMENT ON COLUMN snowflake_metrics.oldest_writer_seconds IS
    'how long ago the oldest transaction that has not ended drew its first ID, which holds back readers by ID; 0 without one';

-- The servers of a fleet ----------------------------------------------------------------------------------------------

-- Types instead of OUT parameters, which would make \df wider.
CREATE TYPE snowflake_server AS (
    system_identifier bigint, datacenter_id integer, worker_id integer, worker_id_source text, state text, layout text,
    clock timestamptz, version text, in_recovery boolean);
COMMENT ON TYPE snowflake_server IS 'row of snowflake_server()';
COMMENT ON COLUMN snowflake_server.system_identifier IS
    'as in pg_control_system(): equal for copies of one database cluster';
COMMENT ON COLUMN snowflake_server.datacenter_id IS 'NULL if there is none';
COMMENT ON COLUMN snowflake_server.worker_id IS 'NULL if there is none';
COMMENT ON COLUMN snowflake_server.worker_id_source IS 'as in snowflake_status';
COMMENT ON COLUMN snowflake_server.state IS 'as in snowflake_status';
COMMENT ON COLUMN snowflake_server.layout IS 'spelled out, with its epoch; NULL if it is invalid';
COMMENT ON COLUMN snowflake_server.clock IS 'what the clock of the server shows';
COMMENT ON COLUMN snowflake_server.version IS 'of the library, which can be newer than the extension';
COMMENT ON COLUMN snowflake_server.in_recovery IS 'whether the server is a standby, or has not finished its recovery';

CREATE FUNCTION snowflake_server() RETURNS snowflake_server
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_server_wrapper';
COMMENT ON FUNCTION snowflake_server() IS
    'what tells this server from others: cluster, worker ID, layout, clock: SELECT * FROM snowflake_server()';

CREATE TYPE snowflake_fleet_member AS (
    server integer, address text, state text, system_identifier bigint, datacenter_id integer, worker_id integer,
    layout text, clock_offset interval, problem text);
COMMENT ON TYPE snowflake_fleet_member IS 'row of snowflake_check_fleet(conninfo)';
COMMENT ON COLUMN snowflake_fleet_member.server IS
    'number of its connection string, from 1 on; 0 for this server';
COMMENT ON COLUMN snowflake_fleet_member.address IS
    'host and port of the connection string, or its service';
COMMENT ON COLUMN snowflake_fleet_member.layout IS 'NULL if the library is not preloaded there';
COMMENT ON COLUMN snowflake_fleet_member.clock_offset IS
    'how far its clock is ahead of that of this server, give or take half of the round trip';
COMMENT ON COLUMN snowflake_fleet_member.problem IS 'what is wrong; NULL if nothing is';

-- Not for PUBLIC: it connects from this server, as dblink does. PARALLEL UNSAFE, since it may rename its session. Without
-- an argument, the error shows a call.
CREATE FUNCTION snowflake_check_fleet(conninfo text[] DEFAULT NULL) RETURNS SETOF snowflake_fleet_member
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'snowflake_check_fleet_wrapper';
COMMENT ON FUNCTION snowflake_check_fleet(text[]) IS
    'asks other servers which they are, by connection strings: SELECT * FROM snowflake_check_fleet(ARRAY[''host=pg-2 dbname=postgres'']); a row for this server and one for each, with what is wrong';
REVOKE ALL ON FUNCTION snowflake_check_fleet(text[]) FROM PUBLIC;

-- VOLATILE, since the server issues IDs meanwhile.
CREATE FUNCTION snowflake_issued_elsewhere(id bigint) RETURNS boolean
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_issued_elsewhere_wrapper';
COMMENT ON FUNCTION snowflake_issued_elsewhere(bigint) IS
    'true if an ID has the worker ID of this server, and this server has not issued it; false proves nothing; NULL on a server that issues no IDs';

-- Administration: only for superusers by default ---------------------------------------------------------------------

CREATE FUNCTION snowflake_advance(past bigint, force boolean DEFAULT false) RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_advance_wrapper';
COMMENT ON FUNCTION snowflake_advance(bigint, boolean) IS
    'make all new IDs greater than this one, as setval() does for sequences: for IDs that were restored or come from elsewhere';

CREATE FUNCTION snowflake_accept_mark(force boolean DEFAULT false) RETURNS timestamptz
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_accept_mark_wrapper';
COMMENT ON FUNCTION snowflake_accept_mark(boolean) IS
    'accept the durable mark of a copied server, of another cluster or of another layout, when no other server issues IDs of this worker; returns when IDs begin';

CREATE FUNCTION snowflake_reset_state(floor timestamptz) RETURNS timestamptz
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_reset_state_wrapper';
COMMENT ON FUNCTION snowflake_reset_state(timestamptz) IS
    'replace a damaged durable mark, or one that was reset to too far ahead; floor is later than every ID that this server has issued: now() if the clock has always been right; returns when IDs begin';

CREATE FUNCTION snowflake_accept_clock() RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_accept_clock_wrapper';
COMMENT ON FUNCTION snowflake_accept_clock() IS
    'trust the clock at once, after it has jumped ahead by more than snowflake_pg.max_forward_jump';

CREATE FUNCTION snowflake_stats_reset() RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_stats_reset_wrapper';
COMMENT ON FUNCTION snowflake_stats_reset() IS
    'reset the counters in snowflake_status';

REVOKE ALL ON FUNCTION
    snowflake_advance(bigint, boolean), snowflake_accept_mark(boolean), snowflake_reset_state(timestamptz),
    snowflake_accept_clock(), snowflake_stats_reset() FROM PUBLIC;

-- Warns if the library is not preloaded.
SELECT FROM snowflake_status;
