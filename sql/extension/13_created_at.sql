-- Columns for the time of the ID

CREATE FUNCTION snowflake_time_expression(column_name name, of_type regtype DEFAULT 'timestamptz') RETURNS text
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_time_expression_wrapper';
COMMENT ON FUNCTION snowflake_time_expression(name, regtype) IS
    'SQL for the time of the IDs in a column, in functions of PostgreSQL alone: for virtual columns, and for models of frameworks; a timestamp is in UTC';

CREATE FUNCTION snowflake_time_expression(column_name name, of_type regtype, layout text) RETURNS text
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_time_expression_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_time_expression(name, regtype, text) IS
    'SQL for the time of the IDs of this layout in a column, in functions of PostgreSQL alone';

CREATE FUNCTION snowflake_key_of(relation regclass, stored boolean) RETURNS name
    LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ours oid := (SELECT t.oid FROM pg_extension JOIN pg_type t ON typnamespace = extnamespace WHERE extname = 'snowflake_pg' AND typname = 'snowflake');
    key name;
    of_type oid;
BEGIN
    SELECT attname, atttypid INTO key, of_type FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
        WHERE indrelid = relation AND indisprimary AND indnkeyatts = 1 AND atttypid IN ('bigint'::regtype, ours);
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'wrong_object_type',
            MESSAGE = format('relation %s has no primary key of one bigint column', relation),
            HINT = 'Add the column by ALTER TABLE, with the expression of snowflake_time_expression().';
    ELSIF NOT stored AND (current_setting('server_version_num')::integer < 180000 OR of_type = ours) THEN
        RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
            MESSAGE = CASE of_type WHEN ours THEN 'a virtual column cannot use a key of type snowflake'
                ELSE 'virtual columns came with PostgreSQL 18' END,
            HINT = 'A view can have the column. snowflake_add_created_at() with stored => true rewrites the table, and each row takes 8 bytes more.';
    END IF;
    RETURN key;
END
$$;
COMMENT ON FUNCTION snowflake_key_of(regclass, boolean) IS
    'not to be called: the primary key for a generated column of its time, or an error';

CREATE FUNCTION snowflake_add_column(relation regclass, column_name name, stored boolean, of_type regtype, expression text) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ADD COLUMN %I %s GENERATED ALWAYS AS (%s) %s',
        relation, column_name, of_type, expression, CASE WHEN stored THEN 'STORED' ELSE 'VIRTUAL' END);
END
$$;
COMMENT ON FUNCTION snowflake_add_column(regclass, name, boolean, regtype, text) IS 'not to be called: what snowflake_add_created_at() does';

CREATE FUNCTION snowflake_add_created_at(
    relation regclass, column_name name DEFAULT 'created_at', stored boolean DEFAULT false, of_type regtype DEFAULT 'timestamptz')
    RETURNS void LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE
    RETURN snowflake_add_column(relation, column_name, stored, of_type,
        snowflake_time_expression(snowflake_key_of(relation, stored), of_type));
COMMENT ON FUNCTION snowflake_add_created_at(regclass, name, boolean, regtype) IS
    'add a generated column with the time of the primary key: virtual, which takes no room; conditions on it use the key';

CREATE FUNCTION snowflake_add_created_at(
    relation regclass, column_name name, stored boolean, of_type regtype, layout text)
    RETURNS void LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE
    RETURN snowflake_add_column(relation, column_name, stored, of_type,
        snowflake_time_expression(snowflake_key_of(relation, stored), of_type, layout));
COMMENT ON FUNCTION snowflake_add_created_at(regclass, name, boolean, regtype, text) IS
    'add a generated column with the time of the primary key, which has IDs of this layout';

-- The constraint makes sure that no value is lost which the column does not show again. It is checked without blocking others.
CREATE FUNCTION snowflake_replace_time(target regclass, name name, within interval, layout text DEFAULT NULL)
    RETURNS SETOF text LANGUAGE plpgsql STABLE PARALLEL UNSAFE ROWS 4 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ours text := (SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'snowflake_pg');
    key name;
    expression text;
    differs text;
    checks name;
    of_type regtype;
    full_type text;
    rounds boolean;
    is_inherited boolean;
    own regclass;
BEGIN
    IF within IS NULL OR within < '0' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'within must be an interval of at least 0';
    END IF;
    SELECT atttypid, format_type(atttypid, atttypmod), atttypmod BETWEEN 0 AND 2, attinhcount > 0 INTO of_type, full_type, rounds, is_inherited
        FROM pg_attribute WHERE attrelid = target AND attname = name AND attnum > 0 AND NOT attisdropped;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_column', MESSAGE = format('column %I of relation %s does not exist', name, target);
    ELSIF is_inherited THEN
        RAISE EXCEPTION USING ERRCODE = 'wrong_object_type', MESSAGE = format('column %I of relation %s is inherited', name, target),
            HINT = 'Replace it in the parent table.';
    ELSIF rounds THEN
        RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('column %I of relation %s rounds its times', name, target),
            DETAIL = 'Conditions on a column that rounds do not use the key.',
            HINT = 'Let it have milliseconds first: ALTER TABLE ... ALTER COLUMN ... TYPE timestamptz(3).';
    END IF;
    -- It would be kept there, under a virtual one.
    WITH RECURSIVE children(child) AS (
        SELECT inhrelid FROM pg_inherits WHERE inhparent = target
        UNION
        SELECT inhrelid FROM children JOIN pg_inherits ON inhparent = child)
    SELECT child::regclass INTO own FROM children JOIN pg_attribute ON attrelid = child AND attname = name AND attislocal LIMIT 1;
    IF own IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('child table %s has column %I of its own', own, name);
    END IF;
    EXECUTE format('SELECT key, CASE WHEN $2 IS NULL THEN %1$s.snowflake_time_expression(key, $3)
            ELSE %1$s.snowflake_time_expression(key, $3, $2) END FROM %1$s.snowflake_key_of($1, false) key', ours)
        INTO key, expression USING target, layout, of_type;
    differs := format('%1$I IS NULL OR %1$I - (%2$s) NOT BETWEEN -%3$L::interval AND %3$L::interval', name, expression, within);
    RETURN NEXT format('SELECT count(*) AS rows_that_differ, min(%I) AS first, max(%1$I) AS last FROM %s WHERE %s', name, target, differs);
    -- Another condition has another name. psql goes on after an error, and to a constraint of an earlier run.
    checks := 'is_time_' || to_hex(hashtextextended(differs, 0));
    RETURN NEXT format('DO %L', format('BEGIN
        IF EXISTS (SELECT FROM %1$s WHERE %2$s) THEN
            RAISE EXCEPTION USING ERRCODE = ''object_not_in_prerequisite_state'',
                MESSAGE = ''values of the column differ from the time of the ID'', HINT = ''The command before this one counts them.'';
        END IF;
        ALTER TABLE %1$s ADD CONSTRAINT %3$I CHECK ((%2$s) IS FALSE) NOT VALID;
        END', target, differs, checks));
    RETURN NEXT format('ALTER TABLE %s VALIDATE CONSTRAINT %I', target, checks);
    RETURN NEXT format('DO %L', format('BEGIN
        LOCK TABLE %1$s IN ACCESS EXCLUSIVE MODE;
        -- Of the columns that have these names now.
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_constraint WHERE conrelid OPERATOR(pg_catalog.=) %2$s::pg_catalog.oid
            AND conname OPERATOR(pg_catalog.=) %3$L::pg_catalog.name AND convalidated
            AND conkey OPERATOR(pg_catalog.=) ARRAY(SELECT attnum FROM pg_catalog.pg_attribute WHERE attrelid OPERATOR(pg_catalog.=) conrelid
                AND attname OPERATOR(pg_catalog.=) ANY (ARRAY[%4$L, %7$L]::pg_catalog.name[]) ORDER BY attname OPERATOR(pg_catalog.<>) %4$L::pg_catalog.name)) THEN
            RAISE EXCEPTION USING ERRCODE = ''object_not_in_prerequisite_state'',
                MESSAGE = ''values of the column may differ from the time of the ID'', HINT = ''Run the commands before this one.'';
        END IF;
        ALTER TABLE %1$s DROP COLUMN %4$I, ADD COLUMN %4$I %5$s GENERATED ALWAYS AS (%6$s) VIRTUAL;
        END', target, target::oid, checks, name, full_type, expression, key));
END
$$;
COMMENT ON FUNCTION snowflake_replace_time(regclass, name, interval, text) IS
    'commands for \gexec that replace a column by a virtual one with the time of the primary key, unless a value differs by more than an interval';
