-- Who calls, as whom a command runs, and how plans begin

CREATE FUNCTION snowflake_adopt.caller() RETURNS oid
    LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_adopt_caller_wrapper';
COMMENT ON FUNCTION snowflake_adopt.caller() IS 'not to be called: the role that calls what everybody may call';

-- A name in a command can be that of another table by then, whose owner must not have to fear it.
CREATE FUNCTION snowflake_adopt.do_as(role oid, command text) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_adopt_do_as_wrapper';
COMMENT ON FUNCTION snowflake_adopt.do_as(oid, text) IS
    'not to be called: runs a command as a role that the caller must be able to become, such as the owner of a table; '
    'returns its first value if that is a bigint';

-- ALTER EXTENSION can move snowflake_pg, so its schema is looked up.
CREATE FUNCTION snowflake_adopt.ids() RETURNS text
    LANGUAGE sql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
    SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg'
$$;
COMMENT ON FUNCTION snowflake_adopt.ids() IS 'not to be called: the schema of snowflake_pg, as commands name it';

-- What these functions call of snowflake_pg is declared again: in its schema, whoever owns that can put functions in
-- the place of others.
CREATE FUNCTION snowflake_adopt.lowest_id(at timestamptz) RETURNS bigint
    LANGUAGE c STABLE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_min_id_wrapper';
COMMENT ON FUNCTION snowflake_adopt.lowest_id(timestamptz) IS
    'not to be called: the lowest ID of a time, as snowflake_min_id()';

CREATE FUNCTION snowflake_adopt.status() RETURNS record
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_get_status_wrapper';
COMMENT ON FUNCTION snowflake_adopt.status() IS 'not to be called: columns of snowflake_status';

CREATE FUNCTION snowflake_adopt.advance(past bigint, force boolean) RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_advance_wrapper';
COMMENT ON FUNCTION snowflake_adopt.advance(bigint, boolean) IS
    'not to be called: makes all new IDs greater than this one, as snowflake_advance()';

CREATE FUNCTION snowflake_adopt.run_as(role regrole, command text) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_run_as_wrapper';
COMMENT ON FUNCTION snowflake_adopt.run_as(regrole, text) IS
    'run a command as a role that you can become by SET ROLE, as plans do for tables of other owners; code that the '
    'command calls cannot switch back; returns its first value if that is a bigint';

CREATE FUNCTION snowflake_adopt.all_or_nothing() RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_all_or_nothing_wrapper';
COMMENT ON FUNCTION snowflake_adopt.all_or_nothing() IS
    'not to be called: for plans, an error, also at COMMIT, if the client sets a savepoint before each command';

CREATE FUNCTION snowflake_adopt.is_other(owner oid) RETURNS boolean
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT owner <> snowflake_adopt.caller()
$$;
COMMENT ON FUNCTION snowflake_adopt.is_other(oid) IS
    'not to be called: whether an owner is another role than the caller';

CREATE FUNCTION snowflake_adopt.has_connected(role oid) RETURNS boolean
    LANGUAGE c STABLE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_adopt_has_connected_wrapper';
COMMENT ON FUNCTION snowflake_adopt.has_connected(oid) IS
    'not to be called: whether the session has connected as this role, so that RESET ROLE leads to no other one';

-- By SET ROLE, which a membership includes unless PostgreSQL 16 or later was told otherwise.
CREATE FUNCTION snowflake_adopt.may_become(role oid) RETURNS boolean
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_has_role(snowflake_adopt.caller(), role,
        CASE WHEN current_setting('server_version_num')::integer < 160000 THEN 'MEMBER' ELSE 'SET' END)
$$;
COMMENT ON FUNCTION snowflake_adopt.may_become(oid) IS 'not to be called: whether the caller could become a role';

-- For commands of plans that can call code of the owner.
CREATE FUNCTION snowflake_adopt.as_owner(owner oid, command text) RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on SET quote_all_identifiers = off AS $$
    -- mutant: owner-not-reset
    SELECT CASE WHEN snowflake_adopt.is_other(owner) OR NOT snowflake_adopt.has_connected(owner)
        THEN format('SELECT snowflake_adopt.run_as(%L, %L)', owner::regrole, command) ELSE command END
$$;
COMMENT ON FUNCTION snowflake_adopt.as_owner(oid, text) IS
    'not to be called: a command that runs with the rights of an owner';

-- Also while a plan is made: an index can call code of the owner.
CREATE FUNCTION snowflake_adopt.read_as_owner(owner oid, query text) RETURNS bigint
    LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    -- mutant: read-as-owner
    SELECT snowflake_adopt.do_as(CASE WHEN snowflake_adopt.may_become(owner) THEN owner
        ELSE snowflake_adopt.caller() END, query)
$$;
COMMENT ON FUNCTION snowflake_adopt.read_as_owner(oid, text) IS
    'not to be called: the number that a query returns, with the rights of an owner if the caller can become that role';

CREATE FUNCTION snowflake_adopt.begins() RETURNS SETOF snowflake_adopt.step
    LANGUAGE sql IMMUTABLE PARALLEL UNSAFE ROWS 3 SET search_path = pg_catalog, pg_temp AS $$
    VALUES
        (1, 'BEGIN ISOLATION LEVEL READ COMMITTED', 'All or nothing, even where psql continues after an error.'),
        (2, 'SELECT snowflake_adopt.all_or_nothing()',
            'Raises an error with ON_ERROR_ROLLBACK, which would commit a part.'),
        (3, 'SET LOCAL lock_timeout = ''500ms''',
            'Below deadlock_timeout, so the plan fails rather than a writer. Run the plan again then.')
$$;
COMMENT ON FUNCTION snowflake_adopt.begins() IS 'not to be called: the commands that begin each transaction of a plan';
