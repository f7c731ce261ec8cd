-- Functions of other roles that a table would call, since a command is read again with other types

-- What calls functions and is made again from a text, where a function that fits bigint better can get the place of
-- one.
CREATE FUNCTION snowflake_adopt.code_of(relation regclass, OUT class oid, OUT object oid, OUT owner oid)
    RETURNS SETOF record
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT o.class, o.object, relowner FROM snowflake_adopt.members(relation) member JOIN pg_class c ON c.oid = member
        CROSS JOIN LATERAL (
        SELECT 'pg_constraint'::regclass, k.oid FROM pg_constraint k WHERE conrelid = member AND contype = 'c'
        UNION ALL
        SELECT 'pg_class'::regclass, indexrelid FROM pg_index WHERE indrelid = member
        UNION ALL
        SELECT 'pg_statistic_ext'::regclass, s.oid FROM pg_statistic_ext s WHERE stxrelid = member) o(class, object)
$$;
COMMENT ON FUNCTION snowflake_adopt.code_of(regclass) IS
    'not to be called: CHECK constraints, indexes and statistics of a table and its partitions';

CREATE FUNCTION snowflake_adopt.called(class oid, object oid, OUT function oid, OUT owner oid) RETURNS SETOF record
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT p.oid, u.owner FROM snowflake_adopt.uses(class, object)
        LEFT JOIN pg_operator o ON refclassid = 'pg_operator'::regclass AND o.oid = refobjid
    JOIN pg_proc p ON p.oid = CASE refclassid WHEN 'pg_proc'::regclass THEN refobjid ELSE oprcode END
    -- mutant: operator-of-others
    CROSS JOIN LATERAL (VALUES (proowner), (oprowner)) u(owner) WHERE u.owner IS NOT NULL
$$;
COMMENT ON FUNCTION snowflake_adopt.called(oid, oid) IS
    'not to be called: the functions that an object calls, and their owners, and those of the operators that have them';

CREATE FUNCTION snowflake_adopt.calls_code(relation oid) RETURNS boolean
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM snowflake_adopt.code_of(relation) o
        CROSS JOIN LATERAL snowflake_adopt.called(o.class, o.object))
$$;
COMMENT ON FUNCTION snowflake_adopt.calls_code(oid) IS
    'not to be called: whether CHECK constraints, indexes or statistics of a table call functions that are not '
    'PostgreSQL''s own';

CREATE FUNCTION snowflake_adopt.owners_called(relations oid[]) RETURNS oid[]
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY(
        SELECT relowner FROM pg_class WHERE oid = ANY (relations)
        UNION
        SELECT c.owner FROM unnest(relations) relation CROSS JOIN LATERAL snowflake_adopt.code_of(relation) o
            CROSS JOIN LATERAL snowflake_adopt.called(o.class, o.object) c
        JOIN pg_roles r ON r.oid = c.owner AND NOT rolsuper)
$$;
COMMENT ON FUNCTION snowflake_adopt.owners_called(oid[]) IS
    'not to be called: the owners of tables, and of the functions that these call, except superusers';

CREATE FUNCTION snowflake_adopt.overloads(class oid, object oid, owner oid, OUT function regprocedure, OUT role oid)
    RETURNS SETOF record
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    -- By the index on names, whatever the planner thinks of a database of 60,000 functions.
    WITH own AS MATERIALIZED (SELECT p.* FROM snowflake_adopt.called(class, object) c
        JOIN pg_proc p ON p.oid = c.function)
    SELECT DISTINCT other.oid::regprocedure, other.proowner FROM own p
    JOIN pg_proc other ON other.proname = p.proname AND other.pronamespace = p.pronamespace
        AND other.proowner NOT IN (p.proowner, overloads.owner)
    -- mutant: function-of-others
    JOIN pg_roles r ON r.oid = other.proowner AND NOT rolsuper
    UNION
    SELECT other.oprcode::regprocedure, other.oprowner FROM snowflake_adopt.uses(class, object)
        JOIN pg_operator o ON refclassid = 'pg_operator'::regclass AND o.oid = refobjid
    JOIN pg_operator other ON other.oprname = o.oprname AND other.oprnamespace = o.oprnamespace
        AND other.oprowner NOT IN (o.oprowner, overloads.owner)
    JOIN pg_roles r ON r.oid = other.oprowner AND NOT rolsuper
$$;
COMMENT ON FUNCTION snowflake_adopt.overloads(oid, oid, oid) IS
    'not to be called: functions of other roles that have the name of one that an object calls';

-- Of what is made again if these columns become bigint.
CREATE FUNCTION snowflake_adopt.why_overloaded(relation regclass, columns name[]) RETURNS SETOF text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('%s could call %s of %s then: rename that, or drop this one until the end.',
        pg_describe_object(class, object, 0), function, role::regrole)
    FROM snowflake_adopt.code_of(relation) CROSS JOIN LATERAL snowflake_adopt.overloads(class, object, owner)
    WHERE EXISTS (SELECT FROM pg_depend JOIN pg_attribute ON attrelid = refobjid AND attnum = refobjsubid
        AND attname = ANY (columns)
        WHERE classid = class AND objid = object AND refclassid = 'pg_class'::regclass)
$$;
COMMENT ON FUNCTION snowflake_adopt.why_overloaded(regclass, name[]) IS
    'not to be called: constraints, indexes and statistics of columns that could call functions of other roles if the '
    'columns are bigint';

CREATE FUNCTION snowflake_adopt.must_call_only(relations regclass[], owners regrole[]) RETURNS void
    LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT snowflake_adopt.owners_called(relations::oid[]) <@ owners::oid[] THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'a function of another role has got the name of one that a table calls',
            DETAIL = format('The table is one of: %s.', array_to_string(relations, ', ')),
            HINT = 'Rename that function, or drop what calls it until the end.';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_adopt.must_call_only(regclass[], regrole[]) IS
    'not to be called: an error if tables call functions of other roles than these';

-- Whatever has changed since somebody looked: a function of another role can come at any moment before PostgreSQL reads
-- the command.
CREATE FUNCTION snowflake_adopt.run_calling_only(role regrole, relations regclass[], owners regrole[], command text)
    RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_run_calling_only_wrapper';
COMMENT ON FUNCTION snowflake_adopt.run_calling_only(regrole, regclass[], regrole[], text) IS
    'not to be called: for plans, runs a command as run_as() does; an error before it calls a function of a role that '
    'is none of these for one of these tables';

CREATE FUNCTION snowflake_adopt.as_owner_of(relation oid, owner oid, command text) RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on SET quote_all_identifiers = off AS $$
    SELECT CASE WHEN snowflake_adopt.calls_code(relation)
        THEN format('SELECT snowflake_adopt.run_calling_only(%L, %L, %L, %L)', owner::regrole,
            ARRAY[relation]::regclass[], snowflake_adopt.owners_called(ARRAY[relation])::regrole[], command)
        ELSE snowflake_adopt.as_owner(owner, command) END
$$;
COMMENT ON FUNCTION snowflake_adopt.as_owner_of(oid, oid, text) IS
    'not to be called: a command that runs with the rights of the owner of a table, and calls only functions of roles '
    'whose functions the table calls';

CREATE FUNCTION snowflake_adopt.must_be_called_already(relation oid, functions oid[], operators oid[]) RETURNS void
    LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owners oid[] := snowflake_adopt.owners_called(ARRAY[relation]);
    added text := (SELECT min(name) FROM (
        SELECT oid::regprocedure::text, proowner FROM pg_proc WHERE oid = ANY (functions)
        UNION ALL
        SELECT oid::regoperator::text, oprowner FROM pg_operator WHERE oid = ANY (operators)) c(name, owner)
        JOIN pg_roles r ON r.oid = c.owner AND NOT rolsuper WHERE c.owner <> ALL (owners));
BEGIN
    IF added IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('an index of %s would call %s of another role', relation::regclass, added);
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_adopt.must_be_called_already(oid, oid[], oid[]) IS
    'not to be called: an error if one of these functions or operators is of another role, none of whose functions a '
    'table calls';
