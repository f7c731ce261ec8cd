-- Who may do what

CREATE FUNCTION snowflake_feed.allow_reader(role regrole) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format($q$
        GRANT USAGE ON SCHEMA snowflake_feed TO %1$s;
        GRANT SELECT ON snowflake_feed.feed, snowflake_feed.member, snowflake_feed.servers TO %1$s;
        GRANT UPDATE (returned_to) ON snowflake_feed.feed TO %1$s;
        GRANT UPDATE (worker, timeline, read_to, horizon, horizon_at, asked_at, problem, problem_since, retry_at)
            ON snowflake_feed.member TO %1$s;
        GRANT EXECUTE ON FUNCTION snowflake_feed.read, snowflake_feed.read_marked, snowflake_feed.lock,
            snowflake_feed.query, snowflake_feed.describe, snowflake_feed.request,
            snowflake_feed.learn, snowflake_feed.open, snowflake_feed.ask, snowflake_feed.await, snowflake_feed.close,
            snowflake_feed.connection, snowflake_feed.connect, snowflake_feed.disconnect, snowflake_feed.connections,
            snowflake_feed.send, snowflake_feed.is_busy, snowflake_feed.answers, snowflake_feed.rows_of TO %1$s
        $q$, role);
END $$;
COMMENT ON FUNCTION snowflake_feed.allow_reader(regrole) IS
    'let a role read all feeds of this database, by its own user mappings: SELECT '
    'snowflake_feed.allow_reader(''consumer'')';

CREATE FUNCTION snowflake_feed.forbid_reader(role regrole) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format($q$
        REVOKE ALL ON SCHEMA snowflake_feed FROM %1$s;
        REVOKE ALL ON ALL TABLES IN SCHEMA snowflake_feed FROM %1$s;
        REVOKE ALL ON ALL FUNCTIONS IN SCHEMA snowflake_feed FROM %1$s
        $q$, role);
END $$;
COMMENT ON FUNCTION snowflake_feed.forbid_reader(regrole) IS
    'undo allow_reader(): SELECT snowflake_feed.forbid_reader(''consumer'')';

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA snowflake_feed FROM PUBLIC;
-- Also what default privileges have granted.
DO $$
DECLARE
    other regrole;
BEGIN
    FOR other IN
        SELECT DISTINCT a.grantee::regrole FROM (
            SELECT nspacl FROM pg_catalog.pg_namespace WHERE oid = 'snowflake_feed'::regnamespace::oid
            UNION ALL SELECT relacl FROM pg_catalog.pg_class WHERE relnamespace = 'snowflake_feed'::regnamespace::oid
            UNION ALL SELECT proacl FROM pg_catalog.pg_proc WHERE pronamespace = 'snowflake_feed'::regnamespace::oid
        ) AS o (acl) CROSS JOIN LATERAL pg_catalog.aclexplode(o.acl) a
        JOIN pg_catalog.pg_namespace n ON n.oid = 'snowflake_feed'::regnamespace::oid
        -- mutant: feed-default-privileges
        WHERE a.grantee <> n.nspowner AND a.grantee <> 0::oid
    LOOP
        PERFORM snowflake_feed.forbid_reader(other);
    END LOOP;
END $$;
REVOKE ALL ON SCHEMA snowflake_feed FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA snowflake_feed FROM PUBLIC;
