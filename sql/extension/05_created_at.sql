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
