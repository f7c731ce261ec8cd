-- Who may call what, and read what

-- Revokes what default privileges have granted to others.
DO $$
DECLARE
    command text;
BEGIN
    FOR command IN
        SELECT DISTINCT format('REVOKE ALL ON %s snowflake_adopt FROM %s', kind, quote_ident(rolname)) FROM (
            SELECT nspowner, nspacl, 'SCHEMA' FROM pg_catalog.pg_namespace WHERE oid = 'snowflake_adopt'::regnamespace
            UNION ALL
            SELECT relowner, relacl, 'ALL TABLES IN SCHEMA' FROM pg_catalog.pg_class WHERE relnamespace = 'snowflake_adopt'::regnamespace
            UNION ALL
            SELECT proowner, proacl, 'ALL ROUTINES IN SCHEMA' FROM pg_catalog.pg_proc WHERE pronamespace = 'snowflake_adopt'::regnamespace
        ) objects(owner, acl, kind) CROSS JOIN LATERAL aclexplode(acl) a JOIN pg_catalog.pg_roles r ON r.oid = a.grantee WHERE a.grantee <> owner
    LOOP
        -- mutant: adopt-default-privileges
        EXECUTE command;
    END LOOP;
END
$$;
REVOKE ALL ON ALL TABLES IN SCHEMA snowflake_adopt FROM PUBLIC;
REVOKE CREATE ON SCHEMA snowflake_adopt FROM PUBLIC;
-- mutant: internals-for-everybody
REVOKE ALL ON ALL ROUTINES IN SCHEMA snowflake_adopt FROM PUBLIC;
GRANT SELECT ON snowflake_adopt.progress TO PUBLIC;
-- What people call.
GRANT EXECUTE ON FUNCTION snowflake_adopt.plan, snowflake_adopt.schema_plan, snowflake_adopt.revert_plan, snowflake_adopt.revert_schema_plan,
    snowflake_adopt.replace_created_at, snowflake_adopt.run_as TO PUBLIC;
GRANT EXECUTE ON PROCEDURE snowflake_adopt.start, snowflake_adopt.run, snowflake_adopt.pause, snowflake_adopt.finish, snowflake_adopt.undo TO PUBLIC;
-- What these, the view, and the commands of plans call.
GRANT EXECUTE ON FUNCTION snowflake_adopt.all_or_nothing, snowflake_adopt.must_be_unchanged, snowflake_adopt.must_depend_on, snowflake_adopt.must_be_bigint,
    snowflake_adopt.begin_migration, snowflake_adopt.aim, snowflake_adopt.has_reached, snowflake_adopt.migrations TO PUBLIC;
GRANT EXECUTE ON PROCEDURE snowflake_adopt.wait TO PUBLIC;
-- What the owner of a table needs who creates the trigger, or restores a dump.
GRANT EXECUTE ON FUNCTION snowflake_adopt.copy_columns TO PUBLIC;
