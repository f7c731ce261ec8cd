-- Privileges

-- Revokes what default privileges have granted to others. Later grants are kept.
DO $$
DECLARE
    other regrole;
    objects text;
BEGIN
    FOR other, objects IN
        SELECT DISTINCT a.grantee, o.objects FROM (
            SELECT n.nspacl, 'SCHEMA' FROM pg_namespace n WHERE n.nspname = 'snowflake_registry'
            UNION SELECT c.relacl, CASE c.relkind WHEN 'S' THEN 'ALL SEQUENCES IN SCHEMA'
                ELSE 'ALL TABLES IN SCHEMA' END
                FROM pg_class c WHERE c.relnamespace = 'snowflake_registry'::regnamespace
            UNION SELECT p.proacl, 'ALL FUNCTIONS IN SCHEMA' FROM pg_proc p
                WHERE p.pronamespace = 'snowflake_registry'::regnamespace
        ) AS o (acl, objects), aclexplode(o.acl) AS a
        -- mutant: registry-default-privileges
        WHERE a.grantee NOT IN (0, quote_ident(current_user)::regrole)
            AND current_setting('snowflake_registry.is_new')::boolean
    LOOP
        EXECUTE format('REVOKE ALL ON %s snowflake_registry FROM %s CASCADE', objects, other);
    END LOOP;
END $$;
REVOKE ALL ON SCHEMA snowflake_registry FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA snowflake_registry FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA snowflake_registry FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA snowflake_registry FROM PUBLIC;
GRANT USAGE ON SCHEMA snowflake_registry TO snowflake_registry_server, snowflake_registry_admin, pg_monitor;
GRANT SELECT ON snowflake_registry.workers, snowflake_registry.status TO snowflake_registry_admin, pg_monitor;
GRANT EXECUTE ON FUNCTION snowflake_registry.time_of(bigint) TO snowflake_registry_admin, pg_monitor;
GRANT EXECUTE ON FUNCTION snowflake_registry.version() TO snowflake_registry_server, snowflake_registry_admin,
    pg_monitor;
GRANT EXECUTE ON FUNCTION
    snowflake_registry.server_hello(uuid, bigint, text, bigint, bigint),
    snowflake_registry.server_claim(uuid[], uuid, bigint, bigint, bigint, bigint, jsonb),
    snowflake_registry.server_renew(uuid[], uuid, bigint, text, bigint, bigint, jsonb),
    snowflake_registry.server_release(uuid[], uuid, bigint, text, bigint, bigint, bigint, jsonb)
    TO snowflake_registry_server;
GRANT EXECUTE ON FUNCTION
    snowflake_registry.reserve_workers(bigint, bigint, text),
    snowflake_registry.forbid_workers(bigint, bigint, text),
    snowflake_registry.allow_workers(bigint, bigint),
    snowflake_registry.release_worker(bigint, timestamptz),
    snowflake_registry.end_recovery(),
    snowflake_registry.set_longest_lease(interval)
    TO snowflake_registry_admin;
