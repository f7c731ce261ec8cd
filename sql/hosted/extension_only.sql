-- Functions that only the extension can implement. They are here for views and functions of a dump.

CREATE OR REPLACE FUNCTION ids.snowflake_needs_extension(name text) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('%s needs the extension snowflake_pg', name),
        DETAIL = 'This database has its functions in plain SQL.';
END
$$;
COMMENT ON FUNCTION ids.snowflake_needs_extension(text) IS 'not to be called: the error of a function that only the extension has';

CREATE OR REPLACE FUNCTION ids.snowflake_horizon() RETURNS bigint
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ids.snowflake_needs_extension('snowflake_horizon()');
END
$$;

CREATE OR REPLACE FUNCTION ids.snowflake_poll(relation anyelement, after bigint, max_rows integer DEFAULT 1000, column_name name DEFAULT NULL) RETURNS SETOF anyelement
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM ids.snowflake_needs_extension('snowflake_poll()');
END
$$;

CREATE OR REPLACE FUNCTION ids.snowflake_encrypt(id bigint, key bytea) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ids.snowflake_needs_extension('snowflake_encrypt()');
END
$$;

CREATE OR REPLACE FUNCTION ids.snowflake_decrypt(id bigint, key bytea) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ids.snowflake_needs_extension('snowflake_decrypt()');
END
$$;
COMMENT ON FUNCTION ids.snowflake_horizon() IS 'an error: only the extension has it';
COMMENT ON FUNCTION ids.snowflake_poll(anyelement, bigint, integer, name) IS 'an error: only the extension has it';
COMMENT ON FUNCTION ids.snowflake_encrypt(bigint, bytea) IS 'an error: only the extension has it';
COMMENT ON FUNCTION ids.snowflake_decrypt(bigint, bytea) IS 'an error: only the extension has it';
