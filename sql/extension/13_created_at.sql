-- Columns for the time of the ID

CREATE FUNCTION snowflake_time_expression(key name, layout text DEFAULT NULL) RETURNS text
    LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_time_expression_wrapper';
COMMENT ON FUNCTION snowflake_time_expression(name, text) IS
    'SQL for the time of the IDs in a column, in functions of PostgreSQL alone: for virtual columns, and for models of frameworks';

CREATE FUNCTION snowflake_add_time(target regclass, name name DEFAULT 'created_at', stored boolean DEFAULT false, layout text DEFAULT NULL)
    RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ours text := (SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'snowflake_pg');
    key name;
    of_type regtype;
    expression text;
BEGIN
    SELECT attname, atttypid INTO key, of_type FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
        WHERE indrelid = target AND indisprimary AND indnkeyatts = 1;
    IF NOT FOUND OR of_type <> 'bigint'::regtype AND NOT (stored AND of_type = to_regtype(ours || '.snowflake')) THEN
        RAISE EXCEPTION USING ERRCODE = 'wrong_object_type',
            MESSAGE = format('table %s has no primary key of one bigint column', target),
            HINT = 'Add the column by ALTER TABLE, with the expression of snowflake_time_expression().';
    END IF;
    IF NOT stored AND current_setting('server_version_num')::integer < 180000 THEN
        RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
            MESSAGE = 'virtual columns came with PostgreSQL 18',
            HINT = 'A view can have the column. With stored => true, PostgreSQL rewrites the table, and each row takes 8 bytes more.';
    END IF;
    EXECUTE format('SELECT %s.snowflake_time_expression($1, $2)', ours) INTO expression USING key, layout;
    EXECUTE format('ALTER TABLE %s ADD COLUMN %I timestamptz GENERATED ALWAYS AS (%s) %s',
        target, name, expression, CASE WHEN stored THEN 'STORED' ELSE 'VIRTUAL' END);
END
$$;
COMMENT ON FUNCTION snowflake_add_time(regclass, name, boolean, text) IS
    'add a generated column with the time of the primary key: virtual, which takes no room; conditions on it use the key';
