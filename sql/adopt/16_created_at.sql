-- A plan that replaces a column of times by the time of the ID

CREATE FUNCTION snowflake_adopt.time_expression(column_name name, of_type regtype) RETURNS text
    LANGUAGE c STABLE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_time_expression_wrapper';
COMMENT ON FUNCTION snowflake_adopt.time_expression(name, regtype) IS 'not to be called: snowflake_time_expression()';
CREATE FUNCTION snowflake_adopt.time_expression(column_name name, of_type regtype, layout text) RETURNS text
    LANGUAGE c STABLE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_time_expression_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_adopt.time_expression(name, regtype, text) IS
    'not to be called: snowflake_time_expression() with a layout';

-- As snowflake_key_of(). It is not called, since whoever owns its schema could put another one there.
CREATE FUNCTION snowflake_adopt.key_of_time(relation regclass) RETURNS name
    LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ours oid := to_regtype(snowflake_adopt.ids() || '.snowflake');
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
    ELSIF current_setting('server_version_num')::integer < 180000 OR of_type = ours THEN
        RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
            MESSAGE = CASE of_type WHEN ours THEN 'a virtual column cannot use a key of type snowflake'
                ELSE 'virtual columns came with PostgreSQL 18' END,
            HINT = 'A view can have the column.';
    END IF;
    RETURN key;
END
$$;
COMMENT ON FUNCTION snowflake_adopt.key_of_time(regclass) IS
    'not to be called: the primary key for a virtual column of its time, or an error';

CREATE FUNCTION snowflake_adopt.must_be_replaceable(relation regclass, column_name name, within interval) RETURNS void
    LANGUAGE plpgsql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    replaced pg_attribute;
    own regclass;
    others text;
BEGIN
    IF relation IS NULL OR column_name IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'arguments must not be NULL';
    ELSIF within IS NULL OR within < '0' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'within must be an interval of at least 0';
    END IF;
    replaced := snowflake_adopt.attribute(relation, column_name);
    SELECT string_agg(why, ' ') INTO others FROM snowflake_adopt.why_no_schema(relation) why;
    IF others IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = others;
    ELSIF replaced.attinhcount > 0 THEN
        RAISE EXCEPTION USING ERRCODE = 'wrong_object_type',
            MESSAGE = format('column "%s" of relation %s is inherited', column_name, relation),
            HINT = 'Replace it in the parent table.';
    ELSIF replaced.atttypmod BETWEEN 0 AND 2 THEN
        RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
            MESSAGE = format('column "%s" of relation %s rounds its times', column_name, relation),
            DETAIL = 'Conditions on a column that rounds do not use the key.',
            HINT = 'Let it have milliseconds first: ALTER TABLE ... ALTER COLUMN ... TYPE timestamptz(3).';
    END IF;
    -- It would be kept there, under a virtual one.
    SELECT member INTO own FROM snowflake_adopt.members(relation) member JOIN pg_attribute ON attrelid = member
        AND attname = column_name
        WHERE member <> relation AND attislocal LIMIT 1;
    IF own IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
            MESSAGE = format('child table %s has column "%s" of its own', own, column_name),
            HINT = 'Drop it there first, or use ALTER TABLE ... NO INHERIT.';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_adopt.must_be_replaceable(regclass, name, interval) IS
    'not to be called: an error unless the time of the ID can take the place of a column';

-- The constraint makes sure that the new column reproduces every value. It is checked without blocking others.
CREATE FUNCTION snowflake_adopt.replaces_created_at(relation regclass, column_name name, within interval,
    has_layout boolean, layout text)
    RETURNS SETOF snowflake_adopt.step
    LANGUAGE plpgsql STABLE PARALLEL UNSAFE ROWS 4 SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on SET quote_all_identifiers = off AS $$
DECLARE
    replaced pg_attribute;
    key name;
    expression text;
    differs text;
    checks name;
BEGIN
    IF has_layout AND layout IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'arguments must not be NULL';
    END IF;
    PERFORM snowflake_adopt.must_be_replaceable(relation, column_name, within);
    replaced := snowflake_adopt.attribute(relation, column_name);
    key := snowflake_adopt.key_of_time(relation);
    expression := CASE WHEN has_layout THEN snowflake_adopt.time_expression(key, replaced.atttypid, layout)
        ELSE snowflake_adopt.time_expression(key, replaced.atttypid) END;
    differs := format('%1$I IS NULL OR %1$I - (%2$s) NOT BETWEEN -%3$L::interval AND %3$L::interval', column_name,
        expression, within);
    -- Another condition has another name. psql goes on after an error, and to a constraint of an earlier run.
    checks := 'is_time_' || to_hex(hashtextextended(differs, 0));
    -- An index can call code of the owner, also in a query.
    RETURN QUERY SELECT step, snowflake_adopt.as_owner((SELECT relowner FROM pg_class WHERE oid = relation), command),
        note FROM (VALUES
        (1, format('SELECT count(*) AS rows_that_differ, min(%I) AS first, max(%1$I) AS last FROM %s WHERE %s',
            column_name, relation, differs),
            'Reads the table. Each of these rows must be corrected first, or within be larger.'),
        (2, format('DO %L', format('BEGIN
        IF EXISTS (SELECT FROM %1$s WHERE %2$s) THEN
            RAISE EXCEPTION USING ERRCODE = ''object_not_in_prerequisite_state'',
                MESSAGE = ''values of the column differ from the time of the ID'',
                    HINT = ''The command before this one counts them.'';
        END IF;
        ALTER TABLE %1$s ADD CONSTRAINT %3$I CHECK ((%2$s) IS FALSE) NOT VALID;
        END', relation, differs, checks)),
            'An error if a row differs. Else new rows must not, from now on. Needs a moment''s ACCESS EXCLUSIVE lock.'),
        (3, format('ALTER TABLE %s VALIDATE CONSTRAINT %I', relation, checks),
            'Reads the table once more. Others read and write meanwhile.'),
        (4, format('DO %L', format('BEGIN
        LOCK TABLE %1$s IN ACCESS EXCLUSIVE MODE;
        -- Of the columns that have these names now.
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_constraint WHERE conrelid OPERATOR(pg_catalog.=) %2$s::pg_catalog.oid
            AND conname OPERATOR(pg_catalog.=) %3$L::pg_catalog.name AND convalidated
            AND conkey OPERATOR(pg_catalog.=) ARRAY(SELECT attnum FROM pg_catalog.pg_attribute
                WHERE attrelid OPERATOR(pg_catalog.=) conrelid
                AND attname OPERATOR(pg_catalog.=) ANY (ARRAY[%4$L, %7$L]::pg_catalog.name[])
                    ORDER BY attname OPERATOR(pg_catalog.<>) %4$L::pg_catalog.name)) THEN
            RAISE EXCEPTION USING ERRCODE = ''object_not_in_prerequisite_state'',
                MESSAGE = ''values of the column may differ from the time of the ID'',
                    HINT = ''Run the commands before this one.'';
        END IF;
        ALTER TABLE %1$s DROP COLUMN %4$I, ADD COLUMN %4$I %5$s GENERATED ALWAYS AS (%6$s) VIRTUAL;
        END', relation, relation::oid, checks, column_name, format_type(replaced.atttypid, replaced.atttypmod),
            expression, key)),
            'An error unless all rows were checked. Drops the column with its indexes, and the constraint. Needs a '
            'moment''s ACCESS EXCLUSIVE lock.'))
        planned(step, command, note);
END
$$;
COMMENT ON FUNCTION snowflake_adopt.replaces_created_at(regclass, name, interval, boolean, text) IS
    'not to be called: the commands that replace a column by a virtual one with the time of the primary key';

CREATE FUNCTION snowflake_adopt.replace_created_at_for_caller(relation regclass, column_name name, within interval)
    RETURNS SETOF snowflake_adopt.step
    LANGUAGE sql STABLE PARALLEL UNSAFE SECURITY DEFINER ROWS 4 SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM snowflake_adopt.replaces_created_at(relation, column_name, within, false, NULL)
$$;
COMMENT ON FUNCTION snowflake_adopt.replace_created_at_for_caller(regclass, name, interval) IS
    'not to be called: does what replace_created_at() is for';
CREATE FUNCTION snowflake_adopt.replace_created_at(relation regclass, column_name name, within interval)
    RETURNS SETOF snowflake_adopt.step
    LANGUAGE c STABLE PARALLEL UNSAFE ROWS 4 AS 'MODULE_PATHNAME', 'snowflake_adopt_enter';
COMMENT ON FUNCTION snowflake_adopt.replace_created_at(regclass, name, interval) IS
    'commands for \gexec that replace a column by a virtual one with the time of the primary key, unless a value '
    'differs by more than an interval; changes nothing itself';

CREATE FUNCTION snowflake_adopt.replace_created_at_for_caller(relation regclass, column_name name, within interval,
    layout text) RETURNS SETOF snowflake_adopt.step
    LANGUAGE sql STABLE PARALLEL UNSAFE SECURITY DEFINER ROWS 4 SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM snowflake_adopt.replaces_created_at(relation, column_name, within, true, layout)
$$;
COMMENT ON FUNCTION snowflake_adopt.replace_created_at_for_caller(regclass, name, interval, text) IS
    'not to be called: does what replace_created_at() is for';
CREATE FUNCTION snowflake_adopt.replace_created_at(relation regclass, column_name name, within interval, layout text)
    RETURNS SETOF snowflake_adopt.step
    LANGUAGE c STABLE PARALLEL UNSAFE ROWS 4 AS 'MODULE_PATHNAME', 'snowflake_adopt_enter';
COMMENT ON FUNCTION snowflake_adopt.replace_created_at(regclass, name, interval, text) IS
    'commands for \gexec that replace a column by a virtual one with the time of the primary key in a layout, unless a '
    'value differs by more than an interval; changes nothing itself';
