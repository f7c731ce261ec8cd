-- snowflake_pg in plain SQL: Snowflake IDs on PostgreSQL 15 or later without an extension, for hosted databases.
--
-- Run it as the owner of the database, once for each database, and again to upgrade:
-- psql -1 -d app -f snowflake_hosted.sql
-- It makes functions, sequences, views and a table in the current schema, which may be one of their own. Then, once:
--
--     SELECT snowflake_set_worker_id(7);  -- 0 to 1023; no other database and no other server has it
--
-- The functions have the names, the layouts and the results of the extension's. docs/hosted.md says what differs.

-- The parts are written for a schema named ids, and made in the current one. They name their own objects with the
-- schema, and find all others in pg_catalog. If search_path had the schema, a role that may create in it later could
-- overload format() or an operator.

DO $install$
DECLARE
    schema text := pg_catalog.quote_ident(pg_catalog.current_schema()::pg_catalog.text);
    old_search_path text := pg_catalog.current_setting('search_path');
    messages text := pg_catalog.current_setting('client_min_messages');
    strings text := pg_catalog.current_setting('standard_conforming_strings');
    installer oid := (SELECT oid FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) current_user);
    unsafe text;
    elsewhere regnamespace;
    paragraph text;
    code text;
    message text;
    detail text;
    hint text;
    script text := $script$
-- The parts of parts.sql.
$script$;
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    IF EXISTS (SELECT FROM pg_extension WHERE extname = 'snowflake_pg'
        AND extnamespace::regnamespace::text = schema) THEN
        -- A migration can carry the script to servers of both kinds.
        RAISE NOTICE USING MESSAGE = 'the extension snowflake_pg has these functions, skipping';
        PERFORM set_config('search_path', old_search_path, true);
        RETURN;
    ELSIF EXISTS (SELECT FROM pg_extension WHERE extname = 'snowflake_pg') THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('the extension snowflake_pg has these functions in schema %s',
                (SELECT extnamespace::regnamespace FROM pg_extension WHERE extname = 'snowflake_pg')),
            HINT = format('Use those, or move them: ALTER EXTENSION snowflake_pg SET SCHEMA %s.',
                coalesce(schema, 'ids'));
    ELSIF schema IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_schema_name', MESSAGE = 'there is no current schema',
            HINT = 'Set search_path to a schema, such as ids.';
    ELSIF schema ~ E'[''\\\\$%]' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_schema_name',
            MESSAGE = format('the name of schema %s has a quote, a dollar sign, a percent sign or a backslash', schema),
            HINT = 'Set search_path to another schema, such as ids.';
    END IF;
    -- A role that can create or drop objects there could run code with the rights of the owner.
    SELECT CASE
            WHEN nspowner <> installer AND NOT (nspowner = 'pg_database_owner'::regrole AND EXISTS (
                SELECT FROM pg_database WHERE datname = current_database() AND datdba = installer))
                    THEN format('It belongs to %s.', nspowner::regrole)
            WHEN others.grantee IS NOT NULL
                THEN format('%s can create objects in it.',
                    CASE others.grantee WHEN 0 THEN 'PUBLIC' ELSE others.grantee::regrole::text END)
            WHEN object.name IS NOT NULL THEN format('%s belongs to %s.', object.name, object.owner::regrole) END
        INTO unsafe
        FROM pg_namespace
        LEFT JOIN LATERAL (SELECT grantee FROM aclexplode(nspacl) WHERE privilege_type = 'CREATE'
            AND grantee NOT IN (nspowner, installer) LIMIT 1) others ON true
        LEFT JOIN LATERAL (
            SELECT p.oid::regprocedure::text AS name, proowner AS owner FROM pg_proc p
                WHERE pronamespace = pg_namespace.oid AND proname LIKE 'snowflake%' AND proowner <> installer
            UNION ALL
            SELECT t.oid::regtype::text, typowner FROM pg_type t WHERE typnamespace = pg_namespace.oid
                AND typname LIKE 'snowflake%' AND typowner <> installer
            UNION ALL
            SELECT c.oid::regclass::text, relowner FROM pg_class c WHERE relnamespace = pg_namespace.oid
                AND relname LIKE 'snowflake%' AND relowner <> installer
            LIMIT 1) object ON true
        WHERE pg_namespace.oid = schema::regnamespace;
    -- mutant: hosted-schema
    IF unsafe IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = format('schema %s must belong to %s alone', schema, quote_ident(current_user)),
            DETAIL = unsafe,
            HINT = 'Set search_path to a schema of your own, in which nobody else can create objects; or run this as '
                'its owner.';
    END IF;
    SELECT relnamespace INTO elsewhere FROM pg_class JOIN pg_roles r ON r.oid = relowner
        WHERE relname = 'snowflake_began' AND relkind = 'S' AND relpersistence <> 't'
            AND relnamespace <> schema::regnamespace
            AND (r.oid = installer OR rolsuper
                OR r.oid = (SELECT datdba FROM pg_database WHERE datname = current_database())) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('this database has these functions in schema %s', elsewhere),
            HINT = format('Set search_path to %s.', elsewhere);
    END IF;
    -- "already exists, skipping"
    PERFORM set_config('client_min_messages', 'warning', true), set_config('standard_conforming_strings', 'on', true);
    -- For rights.sql: what was there before.
    PERFORM set_config('snowflake_hosted.old', coalesce(string_agg(oid::text, ' '), ''), true) FROM (
        SELECT oid FROM pg_proc WHERE pronamespace = schema::regnamespace AND proname LIKE 'snowflake%'
        UNION ALL
        SELECT oid FROM pg_class WHERE relnamespace = schema::regnamespace AND relname LIKE 'snowflake%') objects;
    BEGIN
        -- Empty lines separate statements, and no statement has one.
        FOREACH paragraph IN ARRAY string_to_array(replace(script, 'ids.snowflake', schema || '.snowflake'),
            E'\n\n') LOOP
            EXECUTE paragraph;
        END LOOP;
    EXCEPTION WHEN OTHERS THEN
        -- Without this, PostgreSQL would show the whole paragraph as the context.
        GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
            hint = PG_EXCEPTION_HINT;
        RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message,
            DETAIL = concat_ws(E'\n', nullif(detail, ''), format('The script failed at: %s ...',
                left(btrim(regexp_replace(paragraph, E'(^|\n)--[^\n]*|\\s+', ' ', 'g')), 100))),
            HINT = coalesce(nullif(hint, ''), 'Nothing was changed. Correct this, and run the script again.');
    END;
    PERFORM set_config('search_path', old_search_path, true), set_config('client_min_messages', messages, true),
        set_config('standard_conforming_strings', strings, true);
END
$install$;
