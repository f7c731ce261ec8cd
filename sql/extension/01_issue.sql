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

-- mutant: nextval-volatile
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
