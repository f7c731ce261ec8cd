-- Who may call what, and read what

-- Of what this script has made. In an update, all else keeps what somebody has granted or revoked.
DO $$
DECLARE
    -- What people call.
    called name[] := '{plan, schema_plan, revert_plan, revert_schema_plan, replace_created_at, run_as, start, run, '
        'pause, finish, undo}';
    -- What these, the view, and the commands of plans call.
    needed name[] := '{all_or_nothing, must_be_unchanged, run_calling_only, advance_past, must_depend_on, '
        'must_be_bigint, begin_migration, aim, has_reached, migrations, wait}';
    -- What the owner of a table needs who creates the trigger, or restores a dump.
    of_triggers name[] := '{copy_columns}';
    had oid[] := pg_catalog.current_setting('snowflake_adopt.had'::text)::oid[];
    command text;
BEGIN
    FOR command IN
        WITH made(on_what, owner, acl, granted) AS (
            SELECT 'SCHEMA snowflake_adopt', nspowner, coalesce(nspacl, pg_catalog.acldefault('n'::"char", nspowner)),
                'USAGE'
            FROM pg_catalog.pg_namespace WHERE oid = 'snowflake_adopt'::regnamespace::oid AND oid <> ALL (had)
            UNION ALL
            SELECT pg_catalog.format('TABLE %s', oid::regclass), relowner,
                coalesce(relacl, pg_catalog.acldefault('r'::"char", relowner)),
                CASE WHEN relname = 'progress'::name THEN 'SELECT' END
            FROM pg_catalog.pg_class WHERE relnamespace = 'snowflake_adopt'::regnamespace::oid
                AND relkind IN ('r'::"char", 'v'::"char") AND oid <> ALL (had)
            UNION ALL
            SELECT pg_catalog.format('ROUTINE %s', oid::regprocedure), proowner,
                coalesce(proacl, pg_catalog.acldefault('f'::"char", proowner)),
                CASE WHEN proname = ANY (called) OR proname = ANY (needed) OR proname = ANY (of_triggers)
                    THEN 'EXECUTE' END
            FROM pg_catalog.pg_proc WHERE pronamespace = 'snowflake_adopt'::regnamespace::oid AND oid <> ALL (had))
        -- Also what default privileges have granted.
        -- mutant: internals-for-everybody
        SELECT pg_catalog.format('REVOKE ALL ON %s FROM PUBLIC', on_what) FROM made
        UNION ALL
        -- mutant: adopt-default-privileges
        SELECT pg_catalog.format('REVOKE ALL ON %s FROM %I', on_what, rolname) FROM made
            CROSS JOIN LATERAL pg_catalog.aclexplode(acl) a
        JOIN pg_catalog.pg_roles r ON r.oid = a.grantee WHERE a.grantee <> owner
        UNION ALL
        SELECT pg_catalog.format('GRANT %s ON %s TO PUBLIC', granted, on_what) FROM made WHERE granted IS NOT NULL
    LOOP
        EXECUTE command;
    END LOOP;
END
$$;
