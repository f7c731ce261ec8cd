-- Everybody may call the functions in this list: those for users, and those that these call with the rights of the caller. All others are
-- for the owner. Before there is a worker, PUBLIC is granted the former, and what default privileges have granted on the latter is revoked;
-- later, what the owner has granted and revoked remains.
DO $$
DECLARE
    is_new boolean := NOT EXISTS (SELECT FROM ids.snowflake_database);
    -- mutant: hosted-guard
    for_everybody CONSTANT name[] := '{
        snowflake_nextval, snowflake_id, snowflake_nextval_tagged, snowflake_nextvals, snowflake_nextblock, snowflake_lastval, snowflake_take, snowflake_fill,
        snowflake_shard_of, snowflake_nextval_for, snowflake_nextval_for_shard, snowflake_must_be_shards, snowflake_take_placed, snowflake_place_of,
        snowflake_timestamp, snowflake_decode, snowflake_decode_all, snowflake_explain, snowflake_compose, snowflake_min_id, snowflake_bound,
        snowflake_within, snowflake_to_text, snowflake_from_text, snowflake_to_uuid, snowflake_from_uuid,
        snowflake_time_expression, snowflake_key_of, snowflake_add_created_at,
        snowflake_layout, snowflake_worker_id, snowflake_datacenter_id, snowflake_get_status,
        snowflake_fields, snowflake_own_fields, snowflake_parse, snowflake_arrange, snowflake_token_error, snowflake_presets, snowflake_preset,
        snowflake_unit_ms, snowflake_epoch_ms, snowflake_max_ahead_ms, snowflake_max_wait_ms, snowflake_years, snowflake_unix_ms, snowflake_at,
        snowflake_display_time, snowflake_display_unit, snowflake_time_of, snowflake_unpack, snowflake_must_not_be_negative, snowflake_must_sort,
        snowflake_refuse_time, snowflake_refuse_negative, snowflake_in_field, snowflake_digits}';
    object record;
BEGIN
    FOR object IN
        WITH functions AS (
            SELECT oid::regprocedure::text AS name, proowner, proacl, proname = ANY (for_everybody) AS is_for_everybody
            FROM pg_proc WHERE pronamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'ids.snowflake_began'::regclass) AND proname LIKE 'snowflake%')
        SELECT format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', name) AS command FROM functions WHERE NOT is_for_everybody
        UNION ALL
        SELECT format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC', name) FROM functions WHERE is_for_everybody AND is_new
        UNION ALL
        SELECT format('REVOKE ALL ON %s %s FROM %s', kind, name, grantee::regrole) FROM (
            SELECT CASE relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind, oid::regclass::text AS name, relowner AS owner, relacl AS acl
            FROM pg_class WHERE oid IN ('ids.snowflake_position'::regclass, 'ids.snowflake_high_water_mark'::regclass, 'ids.snowflake_began'::regclass,
                'ids.snowflake_database'::regclass, 'ids.snowflake_lock'::regclass)
            UNION ALL
            SELECT 'FUNCTION', name, proowner, proacl FROM functions WHERE NOT is_for_everybody) objects
        CROSS JOIN LATERAL aclexplode(acl) WHERE grantee NOT IN (owner, 0) AND is_new
    LOOP
        -- mutant: hosted-default-privileges
        EXECUTE object.command;
    END LOOP;
END
$$;
