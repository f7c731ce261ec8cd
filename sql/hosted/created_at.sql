-- Columns for the time of the ID

CREATE OR REPLACE FUNCTION ids.snowflake_time_expression(column_name name, of_type regtype, layout text) RETURNS text
    LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f ids.snowflake_fields := ids.snowflake_fields(layout);
    expression text;
BEGIN
    PERFORM ids.snowflake_must_sort(f);
    IF f.least_id < 0 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'IDs of this layout can be negative',
            HINT = 'Use snowflake_timestamp(id, layout) instead.';
    END IF;
    expression := format(CASE WHEN f.tick_ms = 1 THEN '(%I >> %s)' ELSE '(%I >> %s) * %s::bigint' END, column_name,
        f.timestamp_shift, f.tick_ms);
    -- Exact in its types, so that it means the same under every search_path.
    expression := format('to_timestamp((%s + %s)::double precision / 1000::double precision)',
        expression, f.epoch || CASE WHEN f.epoch <= 2147483647 THEN '::bigint' ELSE '' END);
    IF of_type = 'timestamptz'::regtype THEN
        RETURN expression;
    ELSIF of_type = 'timestamp'::regtype THEN
        RETURN expression || ' AT TIME ZONE ''UTC''';
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'datatype_mismatch', MESSAGE = format('%s is no type for a time', of_type),
        HINT = 'Use timestamptz, or timestamp.';
END
$$;
COMMENT ON FUNCTION ids.snowflake_time_expression(name, regtype, text) IS
    'SQL for the time of the IDs of this layout in a column, in functions of PostgreSQL alone';

CREATE OR REPLACE FUNCTION ids.snowflake_time_expression(column_name name,
    of_type regtype DEFAULT 'timestamptz'::regtype) RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL SAFE
    RETURN ids.snowflake_time_expression(column_name, of_type, ids.snowflake_layout());
COMMENT ON FUNCTION ids.snowflake_time_expression(name, regtype) IS
    'SQL for the time of the IDs in a column, in functions of PostgreSQL alone: for virtual columns, and for models of '
    'frameworks; a timestamp is in UTC';

CREATE OR REPLACE FUNCTION ids.snowflake_key_of(relation regclass, stored boolean) RETURNS name
    LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    key name;
    of_type regtype;
BEGIN
    SELECT attname, atttypid INTO key, of_type FROM pg_index JOIN pg_attribute ON attrelid = indrelid
        AND attnum = indkey[0]
        WHERE indrelid = relation AND indisprimary AND indnkeyatts = 1
            AND atttypid IN ('bigint'::regtype, 'ids.snowflake'::regtype);
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'wrong_object_type',
            MESSAGE = format('relation %s has no primary key of one bigint column', relation),
            HINT = 'Add the column by ALTER TABLE, with the expression of snowflake_time_expression().';
    ELSIF NOT stored AND (current_setting('server_version_num')::integer < 180000
        OR of_type = 'ids.snowflake'::regtype) THEN
        RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
            MESSAGE = CASE of_type WHEN 'ids.snowflake'::regtype
                THEN 'a virtual column cannot use a key of type snowflake'
                ELSE 'virtual columns came with PostgreSQL 18' END,
            HINT = 'A view can have the column. snowflake_add_created_at() with stored => true rewrites the table, and '
                'each row takes 8 bytes more.';
    END IF;
    RETURN key;
END
$$;
COMMENT ON FUNCTION ids.snowflake_key_of(regclass, boolean) IS
    'not to be called directly: the primary key for a generated column of its time, or an error';

CREATE OR REPLACE FUNCTION ids.snowflake_add_created_at(
    relation regclass, column_name name, stored boolean, of_type regtype, layout text)
    RETURNS void LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ADD COLUMN %I %s GENERATED ALWAYS AS (%s) %s', relation, column_name, of_type,
        ids.snowflake_time_expression(ids.snowflake_key_of(relation, stored), of_type, layout),
        CASE WHEN stored THEN 'STORED' ELSE 'VIRTUAL' END);
END
$$;
COMMENT ON FUNCTION ids.snowflake_add_created_at(regclass, name, boolean, regtype, text) IS
    'add a generated column with the time of the primary key, which has IDs of this layout';

CREATE OR REPLACE FUNCTION ids.snowflake_add_created_at(
    relation regclass, column_name name DEFAULT 'created_at', stored boolean DEFAULT false,
    of_type regtype DEFAULT 'timestamptz'::regtype)
    RETURNS void LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM ids.snowflake_add_created_at(relation, column_name, stored, of_type, ids.snowflake_layout());
END
$$;
COMMENT ON FUNCTION ids.snowflake_add_created_at(regclass, name, boolean, regtype) IS
    'add a generated column with the time of the primary key, which is virtual, and takes no room, unless stored is '
    'true';
