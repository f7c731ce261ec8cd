-- Everybody may call the functions for users, and those "not to be called directly", which these call with the rights
-- of the caller. For the owner are those whose comment says so, or "not to be called", and those without a comment.
-- PUBLIC is granted the former, and what default privileges have granted on the latter is revoked: where the object is
-- new, since what the owner has granted and revoked remains.
DO $$
DECLARE
    old oid[] := string_to_array(current_setting('snowflake_hosted.old', true), ' ');
    object record;
BEGIN
    FOR object IN
        WITH functions AS (
            SELECT oid, oid::regprocedure::text AS name, proowner, proacl,
                -- mutant: hosted-guard
                coalesce(obj_description(oid, 'pg_proc') !~ '^(not to be called|for the owner):',
                    false) AS is_for_everybody
            FROM pg_proc WHERE pronamespace
                = (SELECT relnamespace FROM pg_class WHERE oid = 'ids.snowflake_began'::regclass)
                AND proname LIKE 'snowflake%')
        SELECT format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', name) AS command FROM functions
            WHERE NOT is_for_everybody
        UNION ALL
        SELECT format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC', name) FROM functions
            WHERE is_for_everybody AND oid = ANY (old) IS NOT TRUE
        UNION ALL
        SELECT format('REVOKE ALL ON %s %s FROM %s', kind, name, grantee::regrole) FROM (
            SELECT CASE relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind, oid,
                oid::regclass::text AS name, relowner AS owner, relacl AS acl
            FROM pg_class WHERE oid IN ('ids.snowflake_position'::regclass, 'ids.snowflake_high_water_mark'::regclass,
                'ids.snowflake_began'::regclass, 'ids.snowflake_settled'::regclass, 'ids.snowflake_pending'::regclass,
                'ids.snowflake_pending_until'::regclass, 'ids.snowflake_horizon_lock'::regclass,
                'ids.snowflake_database'::regclass, 'ids.snowflake_lock'::regclass)
            UNION ALL
            SELECT 'FUNCTION', oid, name, proowner, proacl FROM functions WHERE NOT is_for_everybody) objects
        CROSS JOIN LATERAL aclexplode(acl) WHERE grantee NOT IN (owner, 0)
            AND oid = ANY (old) IS NOT TRUE
    LOOP
        -- mutant: hosted-default-privileges
        EXECUTE object.command;
    END LOOP;
END
$$;
