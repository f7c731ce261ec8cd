-- From 0.1.0 to 0.2.0. tests/upgrades holds what this makes beside what CREATE EXTENSION does.

\echo Use "ALTER EXTENSION snowflake_pg UPDATE" to load this file. \quit

-- Until the server is restarted, it has the old library, which lacks the new functions.
DO $$
DECLARE
    loaded text := (SELECT version FROM snowflake_identity());
BEGIN
    IF string_to_array(loaded, '.')::integer[] < '{0,2,0}' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('library snowflake_pg %s is too old for version 0.2.0 of the extension', loaded),
            HINT = 'Install the new version and restart the server first.';
    END IF;
END
$$;

-- The same function. Rails' fixtures and others take a default with "nextval" in it for one with a sequence.
CREATE FUNCTION snowflake_id() RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE SUPPORT snowflake_nextval_support
    AS 'MODULE_PATHNAME', 'snowflake_nextval';
COMMENT ON FUNCTION snowflake_id() IS
    'next ID: snowflake_nextval() by another name, for tools that take "nextval" in a default for a sequence';

CREATE FUNCTION snowflake_nextblock(count integer, OUT first bigint, OUT last bigint)
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_nextblock_wrapper';
COMMENT ON FUNCTION snowflake_nextblock(integer) IS
    'first and last of so many adjacent IDs of one tick, for clients that count by themselves; at most as many as a tick has, 4096 in layout twitter';

-- PARALLEL RESTRICTED: a worker of a parallel query has a last ID of its own.
CREATE FUNCTION snowflake_lastval() RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'snowflake_lastval_wrapper';
COMMENT ON FUNCTION snowflake_lastval() IS
    'last ID that this session has taken, as lastval() is for sequences';
