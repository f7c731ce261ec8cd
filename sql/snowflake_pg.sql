-- snowflake_pg: everything that SQL sees, on one page.
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

-- Serial and identity columns of new tables ---------------------------------------------------------------------------

-- With the rights of who runs CREATE TABLE or ALTER TABLE, which must not fail for this. search_path is fixed, so that names
-- show their schemas.

-- Before a foreign key is added. ALTER TABLE also rewrites children, and checks keys of tables that refer to this one: all must be
-- empty and of one owner, since a CHECK or an index can call functions of the owner.
CREATE FUNCTION snowflake_widen(relation regclass, columns text[]) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ours text := (SELECT format('%I', nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg');
    name name := (SELECT relname FROM pg_class WHERE oid = relation);
    owner regrole;
    schema regnamespace;
    narrow record;
    commands text[] := '{}';
    reason text;
    command text;
    column_name text;
BEGIN
    SELECT relowner, relnamespace INTO owner, schema FROM pg_class WHERE oid = relation;
    IF NOT pg_has_role(owner, 'USAGE') THEN
        RETURN;  -- ALTER TABLE will refuse it.
    END IF;
    -- These columns, and what refers to them.
    FOR narrow IN
        WITH RECURSIVE wide(rel, num) AS (
            SELECT attrelid, attnum FROM pg_attribute WHERE attrelid = relation AND attname::text = ANY (columns)
            UNION
            SELECT conrelid, k.own FROM wide JOIN pg_constraint ON contype = 'f' AND confrelid = rel
            CROSS JOIN LATERAL unnest(conkey, confkey) k(own, other) WHERE k.other = num),
        members(rel, member) AS (
            SELECT rel, rel FROM wide
            UNION
            SELECT rel, inhrelid FROM members JOIN pg_inherits ON inhparent = member)
        SELECT rel::regclass,
            (SELECT string_agg(format('ALTER COLUMN %I TYPE bigint', attname), ', ' ORDER BY attnum)
                FROM wide JOIN pg_attribute ON attrelid = wide.rel AND attnum = num
                WHERE wide.rel = of_rel.rel AND atttypid IN ('smallint'::regtype, 'integer'::regtype)) AS actions,
            (SELECT CASE
                WHEN sum(pg_relation_size(member)) > 0 THEN format('%s is not empty', of_rel.rel::regclass)
                WHEN count(*) FILTER (WHERE relowner <> owner) > 0 THEN format('%s or a child of it has another owner', of_rel.rel::regclass)
                WHEN count(*) FILTER (WHERE relnamespace <> schema) > 0 THEN format('%s or a child of it is in another schema', of_rel.rel::regclass)
                END FROM members JOIN pg_class ON oid = member WHERE members.rel = of_rel.rel) AS reason
        FROM (SELECT DISTINCT rel FROM wide) of_rel ORDER BY rel <> relation
    LOOP
        reason := coalesce(reason, narrow.reason);
        commands := commands || (format('ALTER TABLE %s ', narrow.rel) || narrow.actions);
    END LOOP;
    IF reason IS NULL THEN
        BEGIN
            FOREACH command IN ARRAY array_remove(commands, NULL) LOOP
                EXECUTE format('SELECT %s.snowflake_run_as($1, $2)', ours) USING owner, command;
            END LOOP;
        EXCEPTION WHEN OTHERS THEN
            reason := SQLERRM;
        END;
    END IF;
    FOREACH column_name IN ARRAY columns LOOP
        IF reason IS NULL THEN
            RAISE NOTICE USING MESSAGE = format('column "%s" of table "%s" becomes bigint', column_name, name),
                DETAIL = 'It refers to a bigint.';
        ELSE
            RAISE WARNING USING MESSAGE = format('column "%s" of table "%s" is narrower than what it refers to', column_name, name),
                DETAIL = format('It remains as it is: %s.', reason),
                HINT = 'Make it a bigint, and what refers to it, before rows refer to new Snowflake IDs.';
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION snowflake_widen(regclass, text[]) IS
    'not to be called: ALTER TABLE calls it, where snowflake_pg.serial_schemas is set';

-- After CREATE TABLE, for columns that LIKE has copied: all but those that the statement declares.
CREATE FUNCTION snowflake_finish_table(relation regclass, declared text[]) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ours text := (SELECT format('%I', nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg');
    name name := (SELECT relname FROM pg_class WHERE oid = relation);
    copied record;
    reason text;
BEGIN
    FOR copied IN
        SELECT attname, CASE
            -- The copy is to be as the original is, and a change of the type could call code of the original's owner.
            WHEN atttypid <> 'bigint'::regtype THEN format('LIKE has copied its type, which is %s.', atttypid::regtype)
            WHEN (seqstart, seqincrement, seqmin, seqmax, seqcycle) <> (1, 1, 1, 9223372036854775807, false) THEN
                'LIKE has copied the options of its identity.' END AS reason
        FROM pg_attribute JOIN pg_depend d ON refobjid = attrelid AND refobjsubid = attnum AND deptype = 'i'
            AND d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
        JOIN pg_sequence ON seqrelid = d.objid
        WHERE attrelid = relation AND attidentity <> '' AND attinhcount = 0 AND attname::text <> ALL (declared)
        ORDER BY attnum
    LOOP
        reason := copied.reason;
        IF reason IS NULL THEN
            BEGIN
                EXECUTE format('ALTER TABLE %s ALTER COLUMN %I DROP IDENTITY, ALTER COLUMN %I SET DEFAULT %s.snowflake_id()',
                    relation, copied.attname, copied.attname, ours);
                RAISE NOTICE 'column "%" of table "%" gets Snowflake IDs', copied.attname, name;
                CONTINUE;
            EXCEPTION WHEN OTHERS THEN
                reason := SQLERRM || '.';
            END;
        END IF;
        RAISE NOTICE USING MESSAGE = format('column "%s" of table "%s" is numbered by a sequence', copied.attname, name),
            DETAIL = reason;
    END LOOP;
END
$$;
COMMENT ON FUNCTION snowflake_finish_table(regclass, text[]) IS
    'not to be called: CREATE TABLE calls it, where snowflake_pg.serial_schemas is set';

-- Adopting existing tables --------------------------------------------------------------------------------------------
--
-- Plans for \gexec, by the caller's rights. They change nothing. search_path is fixed, so that names show their schemas.

CREATE TYPE snowflake_step AS (step integer, command text, note text);
COMMENT ON TYPE snowflake_step IS 'row of snowflake_adopt_plan(), snowflake_adopt_schema_plan() and snowflake_revert_plan()';
COMMENT ON COLUMN snowflake_step.command IS 'to be run, in order; NULL for a remark, or if something stands in the way or nothing is to be done';
COMMENT ON COLUMN snowflake_step.note IS 'what the command does, rewrites and locks; or what the plan leaves, or what stands in the way';

CREATE FUNCTION snowflake_run_as(role regrole, command text) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_run_as_wrapper';
COMMENT ON FUNCTION snowflake_run_as(regrole, text) IS
    'run a command as a role that you can become by SET ROLE, without a way back for code that it calls, as plans do for tables of others; returns its first value if that is a bigint';

-- The command that drops a view, a policy, a trigger or a function, and those that make it again as it was.
CREATE FUNCTION snowflake_remake(class oid, object oid) RETURNS text[]
    LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    -- Texts as the plan runs them.
    SET standard_conforming_strings = on AS $$
DECLARE
    -- As commands name it.
    kind text;
    name text;
    owner oid;
    acl aclitem[];
    makes text[];
    more text[];
BEGIN
    IF class = 'pg_class'::regclass THEN
        SELECT CASE relkind WHEN 'v' THEN 'VIEW' ELSE 'MATERIALIZED VIEW' END, object::regclass, relowner, relacl,
            ARRAY[concat('CREATE ', CASE relkind WHEN 'v' THEN 'VIEW ' ELSE 'MATERIALIZED VIEW ' END, object::regclass,
                ' USING ' || quote_ident(amname), ' WITH (' || (SELECT string_agg(format('%I = %L', option_name, option_value), ', ') FROM pg_options_to_table(reloptions)) || ')',
                ' TABLESPACE ' || quote_ident(spcname), ' AS', chr(10), rtrim(pg_get_viewdef(object), ';'),
                CASE relkind WHEN 'm' THEN ' WITH NO DATA' END)]
            INTO kind, name, owner, acl, makes
            FROM pg_class c LEFT JOIN pg_am a ON a.oid = relam LEFT JOIN pg_tablespace t ON t.oid = reltablespace
            WHERE c.oid = object;
        SELECT array_agg(command ORDER BY place, command) INTO more FROM (
            SELECT 1 AS place, pg_get_indexdef(indexrelid) AS command FROM pg_index WHERE indrelid = object
            UNION ALL
            SELECT 2, pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = object AND NOT tgisinternal
            UNION ALL
            SELECT 3, pg_get_ruledef(oid) FROM pg_rewrite WHERE ev_class = object AND rulename <> '_RETURN'
            UNION ALL
            SELECT 4, format('ALTER VIEW %s ALTER COLUMN %I SET DEFAULT %s', name, attname, pg_get_expr(adbin, adrelid))
            FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum WHERE adrelid = object
            UNION ALL
            SELECT 6, format('REFRESH MATERIALIZED VIEW %s', name) FROM pg_class
            WHERE oid = object AND relkind = 'm' AND relispopulated
            UNION ALL
            SELECT 5, format('COMMENT ON COLUMN %s.%I IS %L', name, attname, description)
            FROM pg_description JOIN pg_attribute ON attrelid = objoid AND attnum = objsubid
            WHERE classoid = class AND objoid = object AND objsubid > 0) commands;
    ELSIF class = 'pg_proc'::regclass THEN
        SELECT 'FUNCTION', object::regprocedure, proowner, proacl, ARRAY[pg_get_functiondef(object)]
            INTO kind, name, owner, acl, makes FROM pg_proc WHERE oid = object;
    ELSIF class = 'pg_policy'::regclass THEN
        SELECT 'POLICY', format('%I ON %s', polname, polrelid::regclass), ARRAY[concat(
                format('CREATE POLICY %I ON %s AS %s FOR %s TO %s', polname, polrelid::regclass,
                    CASE WHEN polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END,
                    CASE polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE' WHEN 'd' THEN 'DELETE' ELSE 'ALL' END,
                    (SELECT string_agg(CASE role WHEN 0 THEN 'PUBLIC' ELSE role::regrole::text END, ', ') FROM unnest(polroles) role)),
                ' USING (' || pg_get_expr(polqual, polrelid) || ')', ' WITH CHECK (' || pg_get_expr(polwithcheck, polrelid) || ')')]
            INTO kind, name, makes FROM pg_policy WHERE oid = object;
    ELSE
        SELECT 'TRIGGER', format('%I ON %s', tgname, tgrelid::regclass), pg_get_triggerdef(object) || CASE tgenabled
                WHEN 'O' THEN '{}' ELSE ARRAY[format('ALTER TABLE %s %s TRIGGER %I', tgrelid::regclass,
                    CASE tgenabled WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA' ELSE 'ENABLE ALWAYS' END, tgname)] END
            INTO kind, name, makes FROM pg_trigger WHERE oid = object;
    END IF;
    IF owner <> quote_ident(current_user)::regrole THEN
        -- Before anything of it runs.
        makes := makes || format('ALTER %s %s OWNER TO %s', kind, name, owner::regrole);
    END IF;
    makes := makes || more || (SELECT format('COMMENT ON %s %s IS %L', kind, name, description)
        FROM pg_description WHERE classoid = class AND objoid = object AND objsubid = 0);
    -- Neither more nor less, whatever ALTER DEFAULT PRIVILEGES gives to new objects.
    IF owner IS NOT NULL AND (acl IS NOT NULL OR EXISTS (SELECT FROM pg_default_acl)) THEN
        acl := coalesce(acl, acldefault(CASE kind WHEN 'FUNCTION' THEN 'f'::"char" ELSE 'r'::"char" END, owner));
        SELECT makes || array_agg(format('REVOKE ALL ON %s%s FROM %s', CASE kind WHEN 'FUNCTION' THEN 'FUNCTION ' END, name, who) ORDER BY who)
            INTO makes FROM (
                SELECT 'PUBLIC' AS who
                UNION
                SELECT grantee::regrole::text FROM pg_default_acl CROSS JOIN LATERAL aclexplode(defaclacl)
                WHERE grantee NOT IN (0, owner)) revoked;
        SELECT makes || array_agg(format('GRANT %s ON %s%s TO %s%s', privileges, CASE kind WHEN 'FUNCTION' THEN 'FUNCTION ' END, name,
                CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END, CASE WHEN is_grantable THEN ' WITH GRANT OPTION' END)
                ORDER BY grantee, is_grantable)
            INTO makes FROM (
                SELECT grantee, is_grantable, string_agg(privilege_type, ', ' ORDER BY privilege_type) AS privileges
                FROM aclexplode(acl) WHERE grantee <> owner GROUP BY grantee, is_grantable) granted;
    END IF;
    IF class = 'pg_class'::regclass THEN
        SELECT makes || array_agg(format('GRANT %s ON %s TO %s%s', privileges, name,
                CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END, CASE WHEN is_grantable THEN ' WITH GRANT OPTION' END)
                ORDER BY privileges, grantee)
            INTO makes FROM (
                SELECT grantee, is_grantable, string_agg(format('%s (%I)', privilege_type, attname), ', ' ORDER BY privilege_type, attnum) AS privileges
                FROM pg_attribute CROSS JOIN LATERAL aclexplode(attacl) WHERE attrelid = object AND attacl IS NOT NULL
                GROUP BY grantee, is_grantable) granted;
    END IF;
    RETURN array_remove(format('DROP %s %s', kind, name) || makes, NULL);
END
$$;
COMMENT ON FUNCTION snowflake_remake(oid, oid) IS
    'not to be called: for snowflake_adopt_plan(), the command that drops a view, policy, trigger or function, and those that make it again';

-- On what a view, a policy, a trigger or a function depends: what can be made again, too, by its name, and all else by its OID.
CREATE FUNCTION snowflake_dependencies(class oid, object oid) RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(string_agg(DISTINCT CASE WHEN relkind IN ('v', 'm') OR prosqlbody IS NOT NULL THEN name
        ELSE concat_ws(' ', refclassid, refobjid, name) END, ', '), '')
    FROM (
        SELECT refclassid, refobjid, (SELECT concat_ws(' ', type, identity) FROM pg_identify_object(refclassid, refobjid, 0)) AS name
        FROM pg_depend
        WHERE deptype = 'n' AND (classid = class AND objid = object OR classid = 'pg_rewrite'::regclass AND class = 'pg_class'::regclass
            AND objid IN (SELECT oid FROM pg_rewrite WHERE ev_class = object))) depends
    LEFT JOIN pg_class c ON refclassid = 'pg_class'::regclass AND c.oid = refobjid
    LEFT JOIN pg_proc p ON refclassid = 'pg_proc'::regclass AND p.oid = refobjid
$$;
COMMENT ON FUNCTION snowflake_dependencies(oid, oid) IS
    'not to be called: for snowflake_adopt_plan(), on what an object depends';

-- How an object is made. Of what another part of the plan has made again, the text of the definition can differ, and is left out.
CREATE FUNCTION snowflake_fingerprint(class oid, object oid, with_definition boolean) RETURNS text
    LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ours text := (SELECT format('%I', nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg');
    made text[];
    depends text;
    columns text[];
BEGIN
    EXECUTE format('SELECT %s.snowflake_remake($1, $2), %s.snowflake_dependencies($1, $2)', ours, ours)
        INTO made, depends USING class, object;
    columns := ARRAY(SELECT attname FROM pg_attribute
        WHERE class = 'pg_class'::regclass AND attrelid = object AND attnum > 0 ORDER BY attnum);
    RETURN md5(concat(made[1], CASE WHEN with_definition THEN made[2] END, made[3:], depends, columns));
END
$$;
COMMENT ON FUNCTION snowflake_fingerprint(oid, oid, boolean) IS
    'not to be called: for snowflake_adopt_plan(), whether an object has changed';

-- Raises an error unless an object is as it was when the plan was made; or, with NULL, made again, depends on the same: a function of somebody
-- else can fit bigint better.
CREATE FUNCTION snowflake_must_be(kind text, names text[], arguments text[], planned text, fingerprint_with_definition boolean) RETURNS void
    LANGUAGE plpgsql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ours text := (SELECT format('%I', nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg');
    class oid;
    object oid;
    found text;
BEGIN
    SELECT classid, objid INTO class, object FROM pg_get_object_address(kind, names, arguments);
    IF fingerprint_with_definition IS NULL THEN
        EXECUTE format('SELECT %s.snowflake_dependencies($1, $2)', ours) INTO found USING class, object;
    ELSE
        EXECUTE format('SELECT %s.snowflake_fingerprint($1, $2, $3)', ours) INTO found USING class, object, fingerprint_with_definition;
    END IF;
    IF found <> planned AND fingerprint_with_definition IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('%s has changed since the plan was made', pg_describe_object(class, object, 0)),
            HINT = 'Make the plan anew, and run it.';
    ELSIF found <> planned THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('%s depends on something else than before', pg_describe_object(class, object, 0)),
            DETAIL = format('It depends on: %s. It did on: %s.', found, planned),
            HINT = 'Drop it, run the plan, and create it as it is to be.';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_must_be(text, text[], text[], text, boolean) IS
    'not to be called: for snowflake_adopt_plan(), an error if what is made again is not as it was';

-- What reads these columns, and what reads that: the commands that drop it and make it again, in their order, or why not. All must
-- be of one owner, whose code runs while policies and triggers are missing.
CREATE FUNCTION snowflake_around(
    relations oid[], columns name[], at_once boolean, OUT drops text[], OUT makes text[], OUT obstacles text[])
    LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ours text := (SELECT format('%I', nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg');
    of_tables oid := (SELECT max(relowner) FROM pg_class WHERE pg_class.oid = ANY (relations) HAVING count(DISTINCT relowner) = 1);
    check_as text := 'SELECT ' || ours || '.snowflake_must_be(%L::pg_catalog.text, %L::pg_catalog.text[], %L::pg_catalog.text[], '
        '%L::pg_catalog.text, %L::pg_catalog.bool)';
    reader record;
    remade text[];
    fingerprint text;
    -- In the order in which they are dropped.
    readers oid[] := '{}';
    classes oid[] := '{}';
    checks text[] := '{}';
    refresh text;
    refreshes text[] := '{}';
    address record;
    depends text;
BEGIN
    drops := '{}';
    makes := '{}';
    obstacles := '{}';
    FOR reader IN
        WITH RECURSIVE members(member, col) AS (
            SELECT rel, col FROM unnest(relations, columns) u(rel, col)
            UNION
            SELECT inhrelid, col FROM members JOIN pg_inherits ON inhparent = member),
        readers(class, object, by_type, depth) AS (
            SELECT CASE WHEN w.oid IS NULL THEN d.classid ELSE 'pg_class'::regclass END, coalesce(w.ev_class, d.objid), false, 1
            FROM members JOIN pg_attribute a ON attrelid = member AND attname = col
            JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = member AND d.refobjsubid = a.attnum
            LEFT JOIN pg_rewrite w ON d.classid = 'pg_rewrite'::regclass AND w.oid = d.objid AND rulename = '_RETURN'
            LEFT JOIN pg_trigger t ON d.classid = 'pg_trigger'::regclass AND t.oid = d.objid
            WHERE w.oid IS NOT NULL OR d.classid IN ('pg_policy'::regclass, 'pg_proc'::regclass)
                OR tgparentid = 0 AND NOT tgisinternal
            UNION
            SELECT CASE WHEN w.oid IS NULL THEN d.classid ELSE 'pg_class'::regclass END, coalesce(w.ev_class, d.objid),
                d.refclassid <> r.class, depth + 1
            FROM readers r
            LEFT JOIN pg_class v ON r.class = 'pg_class'::regclass AND v.oid = r.object
            LEFT JOIN pg_type y ON y.oid = v.reltype
            JOIN pg_depend d ON d.deptype = 'n' AND (d.refclassid = r.class AND d.refobjid = r.object
                OR d.refclassid = 'pg_type'::regclass AND d.refobjid IN (y.oid, y.typarray))
            LEFT JOIN pg_rewrite w ON d.classid = 'pg_rewrite'::regclass AND w.oid = d.objid
            LEFT JOIN pg_trigger t ON d.classid = 'pg_trigger'::regclass AND t.oid = d.objid
            -- A view is made again with its rules and triggers.
            WHERE w.ev_class IS DISTINCT FROM r.object AND t.tgrelid IS DISTINCT FROM r.object AND depth < 100)
        SELECT class, object, max(depth) AS depth, CASE
            WHEN bool_or(by_type) OR class NOT IN ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_policy'::regclass, 'pg_trigger'::regclass)
                OR min(c.relkind::text) NOT IN ('v', 'm') THEN 'it reads what must become bigint'
            WHEN EXISTS (SELECT FROM pg_depend WHERE classid = class AND objid = object AND deptype = 'e') THEN 'an extension owns it'
            WHEN min(c.relpersistence::text) = 't' THEN 'it is temporary'
            WHEN min(p.prokind::text) <> 'f' THEN 'it is no function'
            WHEN (min(o.owner) <> of_tables) IS NOT FALSE THEN 'it and the tables that it reads have several owners'
            WHEN NOT pg_has_role(of_tables, 'USAGE') THEN 'it belongs to another role'
            WHEN EXISTS (SELECT FROM aclexplode(min(o.acl::text)::aclitem[]) WHERE grantor <> of_tables)
                OR EXISTS (SELECT privilege_type FROM aclexplode(acldefault(CASE WHEN class = 'pg_proc'::regclass THEN 'f'::"char" ELSE 'r'::"char" END, of_tables))
                    WHERE grantee = of_tables AND min(o.acl::text) IS NOT NULL
                    EXCEPT SELECT privilege_type FROM aclexplode(min(o.acl::text)::aclitem[]) WHERE grantee = of_tables)
                THEN 'other roles have granted privileges on it, or its owner lacks some'
            WHEN min(c.relkind::text) = 'm' AND (EXISTS (SELECT FROM pg_statistic_ext WHERE stxrelid = object)
                OR EXISTS (SELECT FROM pg_index WHERE indrelid = object AND indisclustered)
                OR EXISTS (SELECT FROM pg_attribute WHERE attrelid = object AND attnum > 0 AND (attstattarget >= 0 OR attoptions::text LIKE '%n_distinct%')))
                THEN 'it has statistics or an order of its own'
            WHEN class = 'pg_trigger'::regclass AND EXISTS (SELECT FROM pg_trigger WHERE tgparentid = object)
                THEN 'its table is partitioned'
            END AS reason
        FROM readers
        LEFT JOIN pg_class c ON class = 'pg_class'::regclass AND c.oid = object
        LEFT JOIN pg_proc p ON class = 'pg_proc'::regclass AND p.oid = object
        LEFT JOIN pg_policy l ON class = 'pg_policy'::regclass AND l.oid = object
        LEFT JOIN pg_trigger g ON class = 'pg_trigger'::regclass AND g.oid = object
        LEFT JOIN pg_class t ON t.oid IN (l.polrelid, g.tgrelid)
        CROSS JOIN LATERAL (SELECT coalesce(c.relowner, p.proowner, t.relowner) AS owner, coalesce(c.relacl, p.proacl) AS acl) o
        GROUP BY class, object ORDER BY depth DESC, class, object
    LOOP
        IF reader.reason IS NOT NULL THEN
            obstacles := obstacles || format('%s cannot be dropped and made again: %s.',
                pg_describe_object(reader.class, reader.object, 0), reader.reason);
        ELSE
            classes := classes || reader.class;
            readers := readers || reader.object;
        END IF;
    END LOOP;
    FOR reader IN SELECT class, object FROM unnest(classes, readers) u(class, object) LOOP
        SELECT type, object_names, object_args INTO address FROM pg_identify_object_as_address(reader.class, reader.object, 0);
        EXECUTE format('SELECT %s.snowflake_remake($1, $2), %s.snowflake_fingerprint($1, $2, $3), %s.snowflake_dependencies($1, $2)', ours, ours, ours)
            INTO remade, fingerprint, depends USING reader.class, reader.object, at_once;
        refresh := (SELECT c FROM unnest(remade) c WHERE c LIKE 'REFRESH MATERIALIZED VIEW %');
        drops := drops || format(check_as, address.type, address.object_names, address.object_args, fingerprint, at_once)
            || remade[1];
        makes := array_remove(remade[2:], refresh) || makes;
        refreshes := refresh || refreshes;
        checks := checks || format(check_as, address.type, address.object_names, address.object_args, depends, NULL);
    END LOOP;
    -- Only then what calls functions.
    makes := makes || checks || array_remove(refreshes, NULL);
END
$$;
COMMENT ON FUNCTION snowflake_around(oid[], name[], boolean) IS
    'not to be called: for snowflake_adopt_plan(), the commands for what reads columns that become bigint';

-- Raises an error unless these columns are bigint, in the transaction that gives Snowflake IDs to those to which they refer.
CREATE FUNCTION snowflake_must_be_bigint(relations regclass[], columns name[]) RETURNS void
    LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    narrow text;
BEGIN
    SELECT string_agg(format('%I of %s', attname, rel), ', ' ORDER BY rel::text, attname) INTO narrow
        FROM unnest(relations, columns) u(rel, col) JOIN pg_attribute ON attrelid = rel AND attname = col
        WHERE atttypid <> 'bigint'::regtype;
    IF narrow IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = 'columns are not bigint yet',
            DETAIL = format('They are %s.', narrow), HINT = 'Make the plan anew, and run it.';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_must_be_bigint(regclass[], name[]) IS
    'not to be called: for snowflake_adopt_schema_plan(), an error unless these columns are bigint';

-- The plan for these columns of these tables, which all have numbers: in one transaction, or in one for each table that must be
-- rewritten and a last one.
CREATE FUNCTION snowflake_make_plan(relations regclass[], column_names name[], at_once boolean) RETURNS SETOF snowflake_step
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on
    -- An error rather than a part of the rows.
    SET row_security = off AS $$
DECLARE
    ours text := (SELECT format('%I', nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg');
    me regrole := quote_ident(current_user)::regrole;
    -- Commands that can call code of the owner, if that is somebody else.
    run_as text := ours || '.snowflake_run_as(%L::pg_catalog.regrole, %L::pg_catalog.text)';
    relation regclass;
    column_name name;
    id pg_attribute;
    owner regrole;
    old_default text;
    -- That of an identity column or of a serial, or one that the default calls.
    old_sequence regclass;
    old_name name;
    kept text;
    numbering text;
    numbers text;
    -- What could refuse the new IDs.
    checks text;
    is_key boolean;
    narrow_relations oid[];
    narrow_columns name[];
    widen record;
    remarks text[];
    defaults text[] := '{}';
    default_notes text[] := '{}';
    -- Commands and their notes, in the order in which they run.
    commands text[] := '{}';
    notes text[] := '{}';
    more text[];
    more_notes text[];
    widenings text[] := '{}';
    widening_notes text[] := '{}';
    command text;
    of_command text;
    others text;
    around record;
    fixed text := 'SELECT pg_catalog.set_config(''search_path'', ''pg_catalog, pg_temp'', true), '
        'pg_catalog.set_config(''check_function_bodies'', ''off'', true), pg_catalog.set_config(''standard_conforming_strings'', ''on'', true)';
    fixed_note text := 'What is made again is written for this.';
    drop_note text := 'What reads a column that must become bigint is made again below.';
    make_note text := 'As it was.';
    obstacles text[] := '{}';
    highest bigint;
    greatest_id bigint;
    lowest bigint;
    is_ahead boolean;
    state text;
BEGIN
    -- The columns, and what refers to them by foreign keys, if narrower than a bigint.
    WITH RECURSIVE refers(rel, col) AS (
        SELECT r::oid, c FROM unnest(relations, column_names) u(r, c)
        UNION
        SELECT coalesce(pg_partition_root(c.conrelid), c.conrelid), a.attname
        FROM refers r
        JOIN pg_constraint c ON contype = 'f' AND r.rel IN (confrelid, pg_partition_root(confrelid))
        CROSS JOIN LATERAL unnest(conkey, confkey) k(own, other)
        JOIN pg_attribute a ON a.attrelid = conrelid AND a.attnum = k.own
        JOIN pg_attribute f ON f.attrelid = confrelid AND f.attnum = k.other AND f.attname = r.col)
    SELECT coalesce(array_agg(rel) FILTER (WHERE typtype = 'b'), '{}'), coalesce(array_agg(col) FILTER (WHERE typtype = 'b'), '{}'),
        coalesce(array_agg(format('%I of %s cannot become bigint: its type is the domain %s.', col, rel::regclass, atttypid::regtype))
            FILTER (WHERE typtype = 'd'), '{}')
        INTO narrow_relations, narrow_columns, obstacles
        FROM refers JOIN pg_attribute ON attrelid = rel AND attname = col JOIN pg_type t ON t.oid = atttypid
        WHERE ARRAY[atttypid, typbasetype] && ARRAY['smallint'::regtype, 'integer'::regtype]::oid[];
    FOR widen IN
        WITH RECURSIVE narrow AS (
            SELECT rel, col, attinhcount FROM unnest(narrow_relations, narrow_columns) u(rel, col)
            JOIN pg_attribute ON attrelid = rel AND attname = col),
        members(rel, member) AS (
            SELECT rel, rel FROM narrow
            UNION
            SELECT rel, inhrelid FROM members JOIN pg_inherits ON inhparent = member),
        in_the_way(rel, note) AS (
            SELECT rel, format('%I of %s cannot become bigint while there is: %s.', col, member::regclass,
                pg_describe_object(d.classid, d.objid, d.objsubid))
            FROM narrow JOIN members m USING (rel) JOIN pg_attribute a ON a.attrelid = member AND a.attname = col
            JOIN pg_depend d ON refclassid = 'pg_class'::regclass AND refobjid = member AND refobjsubid = a.attnum
            LEFT JOIN pg_attrdef f ON d.classid = 'pg_attrdef'::regclass AND f.oid = d.objid
            LEFT JOIN pg_attribute g ON g.attrelid = f.adrelid AND g.attnum = f.adnum
            LEFT JOIN pg_rewrite w ON d.classid = 'pg_rewrite'::regclass AND w.oid = d.objid
            WHERE g.attgenerated <> '' OR w.rulename <> '_RETURN' OR d.classid = 'pg_publication_rel'::regclass
            UNION
            SELECT rel, format('%I of %s cannot become bigint: it is in the partition key.', col, member::regclass)
            FROM narrow JOIN members m USING (rel) JOIN pg_attribute a ON a.attrelid = member AND a.attname = col
            JOIN pg_partitioned_table ON partrelid = member
            WHERE a.attnum = ANY (partattrs) OR EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass
                AND d.objid = member AND d.refclassid = 'pg_class'::regclass AND d.refobjid = member
                AND d.refobjsubid = a.attnum)
            UNION
            SELECT rel, format('%I of %s cannot become bigint: the table is of type %s.', col, member::regclass,
                reloftype::regtype)
            FROM narrow JOIN members USING (rel) JOIN pg_class ON pg_class.oid = member
            WHERE reloftype <> 0
            UNION
            SELECT rel, format('%I of %s cannot become bigint: %s owns it, and %s owns %s.', col, rel::regclass,
                r.relowner::regrole, m.relowner::regrole, member::regclass)
            FROM narrow JOIN members USING (rel) JOIN pg_class r ON r.oid = rel JOIN pg_class m ON m.oid = member
            WHERE m.relowner <> r.relowner
            UNION
            SELECT rel, format('%I of %s cannot become bigint: its row type is that of %I of %s.', col, member::regclass,
                u.attname, u.attrelid::regclass)
            FROM narrow JOIN members USING (rel) JOIN pg_type t ON typrelid = member
            JOIN pg_attribute u ON u.atttypid IN (t.oid, typarray) AND NOT u.attisdropped
            JOIN pg_class c ON c.oid = u.attrelid AND c.relkind IN ('r', 'p', 'm')
            UNION
            SELECT rel, format('%I of %s cannot become bigint: it is inherited from another table.', col, rel::regclass)
            FROM narrow WHERE attinhcount > 0)
        SELECT rel::regclass, string_agg(format('ALTER COLUMN %I TYPE bigint', col), ', ' ORDER BY col) AS actions, array_agg(col) AS cols,
            (SELECT pg_size_pretty(sum(pg_total_relation_size(member))) FROM members m WHERE m.rel = narrow.rel) AS size,
            (SELECT array_agg(note ORDER BY note) FROM in_the_way w WHERE w.rel = narrow.rel) AS in_the_way,
            (SELECT relowner::regrole FROM pg_class WHERE oid = rel) AS rel_owner,
            (SELECT string_agg(DISTINCT joined::regclass::text, ', ') FROM pg_constraint CROSS JOIN LATERAL (VALUES (conrelid), (confrelid)) j(joined)
                WHERE contype = 'f' AND rel IN (conrelid, confrelid) AND joined <> rel
                AND NOT (SELECT relispartition FROM pg_class WHERE oid = joined)) AS joined
        FROM narrow GROUP BY rel ORDER BY rel = ANY (relations::oid[]), rel::regclass::text
    LOOP
        obstacles := obstacles || coalesce(widen.in_the_way, '{}');
        IF widen.rel <> ALL (relations) THEN
            others := concat_ws(', ', others, widen.rel);
        END IF;
        command := format('ALTER TABLE %s %s', widen.rel, widen.actions);
        IF widen.rel_owner <> me THEN
            command := 'SELECT ' || format(run_as, widen.rel_owner, command);
        END IF;
        of_command := concat(
            format('Rewrites %s with its indexes, %s now. Readers and writers of it wait until COMMIT.', widen.rel, widen.size),
            CASE WHEN widen.rel_owner <> me THEN
                format(' As its owner, %s, whose code it can run.', widen.rel_owner) END);
        IF at_once THEN
            widenings := widenings || command;
            widening_notes := widening_notes || of_command;
        ELSE
            EXECUTE format('SELECT * FROM %s.snowflake_around($1, $2, false)', ours) INTO around
                USING array_fill(widen.rel::oid, ARRAY[cardinality(widen.cols)]), widen.cols;
            obstacles := obstacles || around.obstacles;
            SELECT commands || array_agg(c ORDER BY place, nth), notes || array_agg(n ORDER BY place, nth) INTO commands, notes FROM (
                VALUES (1, 0::bigint, 'BEGIN', 'For one table, all or nothing.'),
                    (3, 0, format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', concat_ws(', ', widen.rel, widen.joined)),
                        'With the tables that foreign keys join to it. Readers and writers of them wait until COMMIT.'),
                    (4, 0, command, of_command),
                    (5, 0, CASE WHEN around.makes <> '{}' THEN fixed END, fixed_note),
                    (7, 0, 'COMMIT', 'Ends these locks.')
                UNION ALL
                SELECT 2, nth, c, drop_note FROM unnest(around.drops) WITH ORDINALITY u(c, nth)
                UNION ALL
                SELECT 6, nth, c, make_note FROM unnest(around.makes) WITH ORDINALITY u(c, nth)) steps(place, nth, c, n)
                WHERE c IS NOT NULL;
        END IF;
    END LOOP;
    EXECUTE format('SELECT * FROM %s.snowflake_around($1, $2, true)', ours) INTO around
        USING CASE WHEN at_once THEN narrow_relations ELSE '{}' END, CASE WHEN at_once THEN narrow_columns ELSE '{}' END;
    obstacles := obstacles || around.obstacles;

    EXECUTE format('SELECT state FROM %s.snowflake_status', ours) INTO state;
    IF state NOT IN ('ready', 'idle', 'waiting') THEN
        obstacles := obstacles || format('This server issues no IDs at present: its state is %s.', state);
    END IF;
    EXECUTE format('SELECT %s.snowflake_min_id(clock_timestamp())', ours) INTO lowest;
    FOR relation, column_name IN SELECT r, c FROM unnest(relations, column_names) u(r, c) LOOP
        SELECT relowner INTO owner FROM pg_class WHERE oid = relation;
        SELECT * INTO id FROM pg_attribute WHERE attrelid = relation AND attname = column_name;
        SELECT pg_get_expr(adbin, adrelid) INTO old_default FROM pg_attrdef WHERE adrelid = relation AND adnum = id.attnum;
        SELECT c.oid INTO old_sequence FROM pg_depend d
            LEFT JOIN pg_attrdef f ON d.classid = 'pg_attrdef'::regclass AND f.oid = d.objid
            JOIN pg_class c ON c.relkind = 'S' AND c.oid = CASE WHEN f.oid IS NULL THEN d.objid ELSE d.refobjid END
            WHERE (d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
                   AND d.refobjid = relation AND d.refobjsubid = id.attnum AND d.deptype IN ('a', 'i'))
               OR (f.adrelid = relation AND f.adnum = id.attnum AND d.refclassid = 'pg_class'::regclass)
            LIMIT 1;

        SELECT string_agg(pg_get_constraintdef(c.oid), ', ' ORDER BY conname) INTO checks
            FROM pg_constraint c WHERE conrelid = relation AND contype = 'c' AND id.attnum = ANY (conkey);
        is_key := EXISTS (SELECT FROM pg_partitioned_table WHERE partrelid = relation AND id.attnum = ANY (partattrs));

        IF id.attgenerated <> '' THEN
            obstacles := obstacles || format('%I of %s is a generated column.', column_name, relation);
        END IF;
        command := format('SELECT max(%I)::bigint FROM %s', column_name, relation);
        IF owner <> me AND pg_has_role(owner, 'MEMBER') THEN
            command := 'SELECT ' || format(run_as, owner, command);
        END IF;
        EXECUTE command INTO highest;
        IF highest >= lowest THEN
            greatest_id := greatest(greatest_id, highest);
            EXECUTE format('SELECT $1 > %s.snowflake_min_id(clock_timestamp() + $2::interval)', ours)
                INTO is_ahead USING highest, coalesce(current_setting('snowflake_pg.max_forward_jump', true), '1h');
            IF is_ahead THEN
                obstacles := obstacles || concat(format('The greatest ID, %s, is too far ahead of new ones.', highest),
                    ' If these are IDs of another layout, set snowflake_pg.layout to that.',
                    ' If they are no Snowflake IDs, give such rows lower ones, or add another column.');
            END IF;
        END IF;
        SELECT relname, format('%I.%I', nspname, left(relname, 55) || '_kept'), format('INCREMENT %s CACHE %s', seqincrement, seqcache)
            INTO old_name, kept, numbering
            FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace JOIN pg_sequence ON seqrelid = c.oid
            WHERE c.oid = old_sequence;
        -- As the owner, who could put a view in the place of the sequence.
        numbers := format('SELECT pg_catalog.setval(%L::pg_catalog.regclass, last_value, is_called) FROM %s', kept, old_sequence);
        SELECT array_agg(planned.command ORDER BY place), array_agg(planned.note ORDER BY place) INTO more, more_notes
        FROM (
            VALUES
                (6.1, CASE WHEN id.attidentity <> '' THEN
                        format('CREATE SEQUENCE %s AS bigint %s', kept, numbering) END,
                    'Keeps the number of the identity for snowflake_revert_plan().'),
                (6.2, CASE WHEN id.attidentity <> '' AND owner <> me THEN
                        format('ALTER SEQUENCE %s OWNER TO %s', kept, owner) END,
                    'A sequence can only belong to a table of the same owner.'),
                (6.3, CASE WHEN id.attidentity <> '' THEN CASE WHEN owner <> me THEN 'SELECT ' || format(run_as, owner, numbers)
                        ELSE numbers END END,
                    'Nobody takes a number meanwhile.'),
                (7, CASE WHEN id.attidentity <> '' THEN
                        format('ALTER TABLE %s ALTER COLUMN %I DROP IDENTITY', relation, column_name) END,
                    format('Drops the sequence %s.', old_sequence)),
                (8.1, CASE WHEN id.attidentity <> '' THEN format('ALTER SEQUENCE %s RENAME TO %I', kept, old_name) END,
                    'As it was called.'),
                (8.2, CASE WHEN id.attidentity <> '' THEN
                        format('ALTER SEQUENCE %s OWNED BY %s.%I', old_sequence, relation, column_name) END,
                    'Dropped with the column.'),
                (9, CASE WHEN id.attidentity <> '' THEN
                        format('COMMENT ON SEQUENCE %s IS ''snowflake_pg: GENERATED %s AS IDENTITY''', old_sequence,
                            CASE id.attidentity WHEN 'a' THEN 'ALWAYS' ELSE 'BY DEFAULT' END) END,
                    'For snowflake_revert_plan().'),
                (10, CASE WHEN id.attidentity = '' AND EXISTS (SELECT FROM pg_sequence JOIN pg_class c ON c.oid = seqrelid
                        WHERE seqrelid = old_sequence AND seqtypid <> 'bigint'::regtype AND relowner = owner) THEN format('ALTER SEQUENCE %s AS bigint', old_sequence) END,
                    'Kept for snowflake_revert_plan().'),
                (11, format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s.snowflake_nextval()', relation, column_name, ours),
                    concat('New rows get Snowflake IDs. lastval() and currval() do not know them: use RETURNING.',
                        ' The default was ' || old_default || '.', ' They must pass ' || checks || '.',
                        CASE WHEN is_key THEN ' There must be partitions for them.' END))
        ) planned(place, command, note)
        WHERE planned.command IS NOT NULL;
        defaults := defaults || more;
        default_notes := default_notes || more_notes;
    END LOOP;
    IF obstacles <> '{}' THEN
        RETURN QUERY SELECT 0, NULL::text, note FROM unnest(obstacles) note;
        RETURN;
    END IF;

    -- What a plan does not change, and what then has no room for the new IDs.
    SELECT coalesce(array_agg(remark ORDER BY place, remark), '{}') INTO remarks FROM (
        SELECT 1 AS place, format('%s is published by %s: make the column a bigint on the subscribers first.', rel::regclass,
            string_agg(quote_ident(pubname), ', ' ORDER BY pubname)) AS remark
        FROM (SELECT DISTINCT rel FROM unnest(narrow_relations) rel) narrow JOIN pg_class ON oid = rel
        JOIN pg_namespace n ON n.oid = relnamespace JOIN pg_publication_tables ON schemaname = nspname AND tablename = relname
        GROUP BY rel
        UNION ALL
        SELECT 2, format('%s of %s is of type %s, and may refer to %s without a foreign key: it remains as it is.', quote_ident(a.attname),
            c.oid::regclass, format_type(a.atttypid, NULL), rel)
        FROM unnest(relations) rel JOIN pg_class t ON t.oid = rel
        JOIN pg_attribute a ON a.attname IN (t.relname, t.relname || '_id', regexp_replace(t.relname, 's$', '') || '_id',
            regexp_replace(t.relname, 'ies$', 'y') || '_id', regexp_replace(t.relname, 'es$', '') || '_id')
        JOIN pg_class c ON c.oid = a.attrelid
        WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND NOT a.attisdropped
            AND a.atttypid IN ('smallint'::regtype, 'integer'::regtype)
            AND NOT EXISTS (SELECT FROM unnest(narrow_relations, narrow_columns) u(r, col) WHERE r = c.oid AND col = a.attname)
            AND NOT EXISTS (SELECT FROM pg_constraint WHERE contype = 'f' AND conrelid = c.oid AND a.attnum = ANY (conkey))
        UNION ALL
        SELECT 3, format('%s has a parameter or a result of 32 bits or less, and mentions %s: see whether these are its IDs.', p.oid::regprocedure,
            string_agg(rel::text, ', ' ORDER BY rel::text))
        FROM unnest(relations) rel JOIN pg_class t ON t.oid = rel
        JOIN pg_proc p ON strpos(CASE WHEN prosqlbody IS NULL THEN prosrc ELSE pg_get_function_sqlbody(p.oid) END, t.relname) > 0
            AND CASE WHEN prosqlbody IS NULL THEN prosrc ELSE pg_get_function_sqlbody(p.oid) END
                ~ ('\m' || regexp_replace(t.relname, '\W', '\\\&', 'g') || '\M')
        WHERE p.pronamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
            AND ARRAY['smallint'::regtype, 'integer'::regtype]::oid[] && (p.proargtypes::oid[] || p.prorettype || p.proallargtypes)
            AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = p.oid AND deptype = 'e')
        GROUP BY p.oid) remarked;

    RETURN QUERY
    SELECT row_number() OVER (ORDER BY place, nth)::integer, planned.command, planned.note
    FROM (
        SELECT place, 0 AS nth, c, n FROM (
            VALUES
                (2, 'SET lock_timeout = ''500ms''',
                    'Below deadlock_timeout, so that the plan fails and not a writer. Run the plan again then.'),
                (3, CASE WHEN greatest_id IS NOT NULL THEN format('SELECT %s.snowflake_advance(%s::pg_catalog.int8, false)', ours, greatest_id) END,
                    'There are IDs from elsewhere that are greater than new ones would be. For superusers.'),
                (5, 'BEGIN', 'All or nothing, also where psql continues after an error.'),
                (11.5, CASE WHEN around.makes <> '{}' THEN fixed END, fixed_note),
                (7, format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', concat_ws(', ', array_to_string(relations, ', '), CASE WHEN at_once THEN others END)),
                    'Before it, only what reads these tables.'),
                (8, CASE WHEN NOT at_once THEN format('SELECT %s.snowflake_must_be_bigint(%L::pg_catalog.regclass[], %L::pg_catalog.name[])',
                    ours, narrow_relations::regclass[], narrow_columns) END, 'An error if a transaction above has failed.'),
                (13, 'COMMIT', 'Ends all locks.'),
                (14, 'RESET lock_timeout', NULL)) fixed(place, c, n)
        WHERE c IS NOT NULL
        UNION ALL
        SELECT 1, nth, NULL, n FROM unnest(remarks) WITH ORDINALITY u(n, nth)
        UNION ALL
        SELECT 4, nth, c, n FROM unnest(commands, notes) WITH ORDINALITY u(c, n, nth)
        UNION ALL
        SELECT 6, nth, c, drop_note FROM unnest(around.drops) WITH ORDINALITY u(c, nth)
        UNION ALL
        SELECT 10, nth, c, n FROM unnest(widenings, widening_notes) WITH ORDINALITY u(c, n, nth)
        UNION ALL
        SELECT 11, nth, c, n FROM unnest(defaults, default_notes) WITH ORDINALITY u(c, n, nth)
        UNION ALL
        SELECT 12, nth, c, make_note FROM unnest(around.makes) WITH ORDINALITY u(c, nth)
    ) planned(place, nth, command, note);
END
$$;
COMMENT ON FUNCTION snowflake_make_plan(regclass[], name[], boolean) IS
    'not to be called: the plan of snowflake_adopt_plan() and snowflake_adopt_schema_plan()';

CREATE FUNCTION snowflake_adopt_plan(relation regclass, column_name name DEFAULT 'id') RETURNS SETOF snowflake_step
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on AS $$
DECLARE
    ours text := (SELECT format('%I', nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg');
    id pg_attribute;
    old_default text;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class WHERE oid = relation AND relkind IN ('r', 'p') AND NOT relispartition) THEN
        RAISE EXCEPTION USING ERRCODE = 'wrong_object_type',
            MESSAGE = format('%s is not a table, or is a partition', relation), HINT = 'Name the table itself.';
    END IF;
    SELECT * INTO id FROM pg_attribute
        WHERE attrelid = relation AND attname = column_name AND attnum > 0 AND NOT attisdropped;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_column',
            MESSAGE = format('column "%s" of relation %s does not exist', column_name, relation);
    END IF;
    SELECT pg_get_expr(adbin, adrelid) INTO old_default FROM pg_attrdef WHERE adrelid = relation AND adnum = id.attnum;
    IF old_default ~ '\msnowflake_(nextval|nextval_tagged|id)\(' THEN
        RETURN QUERY VALUES (1, NULL, format('Nothing is to be done: the default is %s.', old_default));
        RETURN;
    END IF;
    IF id.atttypid NOT IN ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype)
       AND id.atttypid IS DISTINCT FROM to_regtype(ours || '.snowflake')::oid THEN
        RAISE EXCEPTION USING ERRCODE = 'datatype_mismatch',
            MESSAGE = format('column "%s" of relation %s must be of type smallint, integer, bigint or snowflake',
                column_name, relation),
            DETAIL = format('Its type is %s.', format_type(id.atttypid, id.atttypmod)),
            HINT = CASE id.atttypid WHEN 'uuid'::regtype THEN
                format('A uuid needs no plan: ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s.snowflake_to_uuid(%s.snowflake_nextval()).',
                    relation, column_name, ours, ours)
                ELSE 'Add a column of type bigint.' END;
    END IF;
    RETURN QUERY EXECUTE format('SELECT * FROM %s.snowflake_make_plan($1, $2, true)', ours) USING ARRAY[relation], ARRAY[column_name];
END
$$;
COMMENT ON FUNCTION snowflake_adopt_plan(regclass, name) IS
    'commands for \gexec that give a column the default snowflake_nextval(), and make it and all that refers to it a bigint; changes nothing itself';

CREATE FUNCTION snowflake_adopt_schema_plan(schema regnamespace) RETURNS SETOF snowflake_step
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE ROWS 100 SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on AS $$
DECLARE
    ours text := (SELECT format('%I', nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg');
    relations regclass[];
    columns name[];
    others text[];
BEGIN
    WITH numbered AS (
        SELECT c.oid::regclass AS relation, attname,
            EXISTS (SELECT FROM pg_constraint WHERE conrelid = c.oid AND contype = 'p' AND attnum = ANY (conkey)) AS is_key
        FROM pg_class c JOIN pg_attribute a ON attrelid = c.oid AND attnum > 0 AND NOT attisdropped AND attinhcount = 0
        LEFT JOIN pg_attrdef f ON adrelid = c.oid AND adnum = attnum
        WHERE relnamespace = schema AND relkind IN ('r', 'p') AND NOT relispartition
            AND atttypid IN ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype)
            AND (attidentity <> '' OR EXISTS (SELECT FROM pg_depend d JOIN pg_class s ON s.oid = refobjid AND s.relkind = 'S'
                WHERE d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid AND refclassid = 'pg_class'::regclass))
            AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND deptype = 'e'))
    SELECT array_agg(relation ORDER BY relation::text, attname) FILTER (WHERE is_key),
        array_agg(attname ORDER BY relation::text, attname) FILTER (WHERE is_key),
        array_agg(format('%I of %s is numbered by a sequence, and not in the primary key: it remains as it is.', attname, relation)
            ORDER BY relation::text, attname) FILTER (WHERE NOT is_key)
        INTO relations, columns, others FROM numbered;
    IF relations IS NULL THEN
        RETURN QUERY VALUES (1, NULL, format('Nothing is to be done: no primary key in schema %s is numbered by a sequence.', schema));
    ELSE
        RETURN QUERY EXECUTE format('SELECT * FROM %s.snowflake_make_plan($1, $2, false)', ours) USING relations, columns;
    END IF;
    RETURN QUERY SELECT 0, NULL::text, note FROM unnest(others) note;
END
$$;
COMMENT ON FUNCTION snowflake_adopt_schema_plan(regnamespace) IS
    'the commands of snowflake_adopt_plan() for all primary keys of a schema that sequences or identities number, in a transaction for each table that must be rewritten; changes nothing itself';

CREATE FUNCTION snowflake_revert_plan(relation regclass, column_name name DEFAULT 'id') RETURNS SETOF snowflake_step
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on AS $$
DECLARE
    ours text := (SELECT format('%I', nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg');
    owner regrole := (SELECT relowner FROM pg_class WHERE oid = relation);
    is_others boolean := owner <> quote_ident(current_user)::regrole AND pg_has_role(owner, 'MEMBER');
    -- Commands that can call code of the owner, if that is somebody else.
    run_as text := 'SELECT ' || ours || '.snowflake_run_as(%L::pg_catalog.regrole, %L::pg_catalog.text)';
    id pg_attribute;
    old_default text;
    kept regclass;
    identity text;
    increment bigint;
    numbering text;
    next_number bigint;
    -- For a table that has always had Snowflake IDs.
    is_snowflake boolean;
    obstacle text;
    narrow text;
    numbers text;
    command text;
BEGIN
    SELECT * INTO id FROM pg_attribute WHERE attrelid = relation AND attname = column_name;
    SELECT pg_get_expr(adbin, adrelid) INTO old_default FROM pg_attrdef WHERE adrelid = relation AND adnum = id.attnum;
    IF old_default IS NULL OR old_default !~ '\msnowflake_(nextval|nextval_tagged|id)\(' THEN
        RETURN QUERY VALUES (1, NULL, format('Nothing is to be done: the default is %s.', coalesce(old_default, 'not set')));
        RETURN;
    END IF;
    kept := pg_get_serial_sequence(relation::text, column_name);
    identity := substring(obj_description(kept, 'pg_class') FROM '^snowflake_pg: GENERATED (ALWAYS|BY DEFAULT) AS IDENTITY$');

    IF identity IS NOT NULL THEN
        SELECT seqincrement, format('INCREMENT %s CACHE %s', seqincrement, seqcache) INTO increment, numbering
            FROM pg_sequence WHERE seqrelid = kept;
        command := format('SELECT last_value + is_called::pg_catalog.int4 * %s::pg_catalog.int8 FROM %s', increment, kept);
        EXECUTE CASE WHEN is_others THEN format(run_as, owner, command) ELSE command END INTO next_number;
    ELSIF kept IS NULL THEN
        is_snowflake := id.atttypid IS NOT DISTINCT FROM to_regtype(ours || '.snowflake')::oid;
        WITH RECURSIVE members(member) AS (
            SELECT relation::oid
            UNION
            SELECT inhrelid FROM members JOIN pg_inherits ON inhparent = member),
        in_the_way(what) AS (
            SELECT 'the partition key of ' || member::regclass
            FROM members JOIN pg_partitioned_table ON partrelid = member
            JOIN pg_attribute ON attrelid = member AND attname = column_name AND attnum = ANY (partattrs)
            UNION
            SELECT pg_describe_object(d.classid, d.objid, d.objsubid)
            FROM members JOIN pg_attribute a ON attrelid = member AND attname = column_name
            JOIN pg_depend d ON refclassid = 'pg_class'::regclass AND refobjid = member AND refobjsubid = a.attnum
            LEFT JOIN pg_attrdef f ON d.classid = 'pg_attrdef'::regclass AND f.oid = d.objid
            LEFT JOIN pg_attribute g ON g.attrelid = f.adrelid AND g.attnum = f.adnum
            WHERE g.attgenerated <> '' OR d.classid IN ('pg_policy'::regclass, 'pg_proc'::regclass,
                'pg_publication_rel'::regclass, 'pg_rewrite'::regclass, 'pg_trigger'::regclass))
        SELECT CASE
            WHEN relispartition THEN 'the table is a partition'
            WHEN NOT id.attnotnull THEN 'it can be NULL'
            WHEN id.atttypid IN ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype) THEN NULL
            WHEN NOT is_snowflake OR id.attinhcount > 0 THEN format('it is of type %s', format_type(id.atttypid, id.atttypmod))
            ELSE (SELECT format('it is of type %s, and must remain so for: %s', id.atttypid::regtype, string_agg(what, ', ' ORDER BY what))
                FROM in_the_way HAVING count(*) > 0)
            END
            INTO obstacle FROM pg_class WHERE oid = relation;
        IF obstacle IS NOT NULL THEN
            RETURN QUERY VALUES (0, NULL, concat(
                format('%I of %s cannot become an identity: %s.', column_name, relation, obstacle),
                ' Change that, or set a default of your own, such as nextval() of a sequence above the greatest ID.'));
            RETURN;
        END IF;
        narrow := format('ALTER TABLE %s ALTER COLUMN %I TYPE bigint', relation, column_name);
        numbers := format('SELECT pg_catalog.setval(pg_catalog.pg_get_serial_sequence(%L, %L)::pg_catalog.regclass, '
                'GREATEST(pg_catalog.max(%I), 0::pg_catalog.int8) OPERATOR(pg_catalog.+) 1::pg_catalog.int8, false) FROM %s',
            relation, column_name, column_name, relation);
        IF is_others THEN
            narrow := format(run_as, owner, narrow);
            numbers := format(run_as, owner, numbers);
        END IF;
    END IF;

    RETURN QUERY
    SELECT row_number() OVER (ORDER BY place)::integer, planned.command, planned.note
    FROM (
        VALUES
            (1, 'SET lock_timeout = ''500ms''',
                'Below deadlock_timeout, so that the plan fails and not a writer. Run the plan again then.'),
            (2, 'BEGIN', 'All or nothing, also where psql continues after an error.'),
            (3, CASE WHEN kept IS NULL OR identity IS NOT NULL THEN
                    format('ALTER TABLE %s ALTER COLUMN %I DROP DEFAULT', relation, column_name) END,
                'Readers and writers wait until COMMIT.'),
            (4, CASE WHEN identity IS NOT NULL THEN format('DROP SEQUENCE %s', kept) END, 'For that of the identity.'),
            (5, CASE WHEN identity IS NOT NULL THEN
                    format('ALTER TABLE %s ALTER COLUMN %I ADD GENERATED %s AS IDENTITY (SEQUENCE NAME %s START %s %s)',
                        relation, column_name, identity, kept, next_number, numbering) END,
                format('New rows are numbered from %s on, below the Snowflake IDs.', next_number)),
            (6, CASE WHEN kept IS NOT NULL AND identity IS NULL THEN
                    format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT pg_catalog.nextval(%L::pg_catalog.regclass)', relation, column_name, kept) END,
                'New rows are numbered from where the sequence was left, below the Snowflake IDs.'),
            (7, CASE WHEN is_snowflake THEN narrow END,
                'PostgreSQL has no identity of type snowflake. Does not rewrite the table.'),
            (8, CASE WHEN kept IS NULL THEN
                    format('ALTER TABLE %s ALTER COLUMN %I ADD GENERATED BY DEFAULT AS IDENTITY', relation, column_name) END,
                'No sequence belongs to the column. If it had another default before, set that instead.'),
            (9, CASE WHEN kept IS NULL THEN 'SET LOCAL row_security = off' END, 'An error rather than a part of the rows.'),
            (10, CASE WHEN kept IS NULL THEN numbers END, 'New rows are numbered from above the greatest ID on.'),
            (11, 'COMMIT', 'The column remains a bigint, and all IDs remain.'),
            (12, 'RESET lock_timeout', NULL)
    ) planned(place, command, note)
    WHERE planned.command IS NOT NULL;
END
$$;
COMMENT ON FUNCTION snowflake_revert_plan(regclass, name) IS
    'commands for \gexec that give a column back the sequence or the identity that it had before snowflake_adopt_plan(), or else an identity above its greatest ID; changes nothing itself';

-- Warns if the library is not preloaded.
SELECT FROM snowflake_status;
