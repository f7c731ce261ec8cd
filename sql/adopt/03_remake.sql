-- Recreating the objects that read the columns a plan widens

-- `class` is the catalog of a view, policy, trigger or function, and `object` its OID.

CREATE FUNCTION snowflake_adopt.named(
    class oid, object oid, OUT kind text, OUT name text, OUT owner oid, OUT acl aclitem[])
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE relkind WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE 'VIEW' END, oid::regclass::text, relowner, relacl
    FROM pg_class WHERE class = 'pg_class'::regclass AND oid = object
    UNION ALL
    SELECT 'FUNCTION', oid::regprocedure::text, proowner, proacl FROM pg_proc WHERE class = 'pg_proc'::regclass
        AND oid = object
    UNION ALL
    SELECT 'POLICY', format('%I ON %s', polname, polrelid::regclass), NULL, NULL
    FROM pg_policy WHERE class = 'pg_policy'::regclass AND oid = object
    UNION ALL
    SELECT 'TRIGGER', format('%I ON %s', tgname, tgrelid::regclass), NULL, NULL
    FROM pg_trigger WHERE class = 'pg_trigger'::regclass AND oid = object
$$;
COMMENT ON FUNCTION snowflake_adopt.named(oid, oid) IS
    'not to be called: how commands name an object, and for a view or a function its owner and privileges';

CREATE FUNCTION snowflake_adopt.role_name(role oid) RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE role WHEN 0 THEN 'PUBLIC' ELSE role::regrole::text END
$$;
COMMENT ON FUNCTION snowflake_adopt.role_name(oid) IS 'not to be called: a role, as GRANT and CREATE POLICY name it';

CREATE FUNCTION snowflake_adopt.definition(class oid, object oid) RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE class
        WHEN 'pg_class'::regclass THEN (
            SELECT concat('CREATE ', CASE relkind WHEN 'm' THEN 'MATERIALIZED VIEW ' ELSE 'VIEW ' END, object::regclass,
                ' USING ' || quote_ident(amname),
                ' WITH (' || (SELECT string_agg(format('%I = %L', option_name, option_value), ', ')
                    FROM pg_options_to_table(reloptions)) || ')',
                ' TABLESPACE ' || quote_ident(spcname), ' AS', chr(10), rtrim(pg_get_viewdef(object), ';'),
                CASE relkind WHEN 'm' THEN ' WITH NO DATA' END)
            FROM pg_class c LEFT JOIN pg_am a ON a.oid = relam LEFT JOIN pg_tablespace t ON t.oid = reltablespace
            WHERE c.oid = object)
        WHEN 'pg_proc'::regclass THEN pg_get_functiondef(object)
        WHEN 'pg_trigger'::regclass THEN pg_get_triggerdef(object)
        WHEN 'pg_policy'::regclass THEN (
            SELECT concat(
                format('CREATE POLICY %I ON %s AS %s FOR %s TO %s', polname, polrelid::regclass,
                    CASE WHEN polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END,
                    CASE polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE'
                        WHEN 'd' THEN 'DELETE' ELSE 'ALL' END,
                    (SELECT string_agg(snowflake_adopt.role_name(role), ', ') FROM unnest(polroles) role)),
                ' USING (' || pg_get_expr(polqual, polrelid) || ')',
                ' WITH CHECK (' || pg_get_expr(polwithcheck, polrelid) || ')')
            FROM pg_policy WHERE oid = object)
        END
$$;
COMMENT ON FUNCTION snowflake_adopt.definition(oid, oid) IS 'not to be called: the command that creates an object';

CREATE FUNCTION snowflake_adopt.details(class oid, object oid) RETURNS SETOF text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp AS $$
    WITH me AS (SELECT kind, name, class = 'pg_class'::regclass AS is_view FROM snowflake_adopt.named(class, object))
    SELECT command FROM (
        SELECT 1 AS place, pg_get_indexdef(indexrelid) AS command FROM me JOIN pg_index ON is_view AND indrelid = object
        UNION ALL
        SELECT 2, pg_get_triggerdef(oid) FROM me JOIN pg_trigger ON is_view AND tgrelid = object AND NOT tgisinternal
        UNION ALL
        SELECT 3, pg_get_ruledef(oid) FROM me JOIN pg_rewrite ON is_view AND ev_class = object AND rulename <> '_RETURN'
        UNION ALL
        SELECT 4, format('ALTER VIEW %s ALTER COLUMN %I SET DEFAULT %s', name, attname, pg_get_expr(adbin, adrelid))
        FROM me JOIN pg_attrdef ON is_view AND adrelid = object JOIN pg_attribute ON attrelid = adrelid
            AND attnum = adnum
        UNION ALL
        SELECT 5, format('COMMENT ON COLUMN %s.%I IS %L', name, attname, description)
        FROM me JOIN pg_description ON is_view AND classoid = class AND objoid = object AND objsubid > 0
        JOIN pg_attribute ON attrelid = objoid AND attnum = objsubid
        UNION ALL
        SELECT 6, format('ALTER TABLE %s %s TRIGGER %I', tgrelid::regclass,
            CASE tgenabled WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA' ELSE 'ENABLE ALWAYS' END, tgname)
        FROM pg_trigger WHERE class = 'pg_trigger'::regclass AND oid = object AND tgenabled <> 'O'
        UNION ALL
        SELECT 7, format('COMMENT ON %s %s IS %L', kind, name, description)
        FROM me JOIN pg_description ON classoid = class AND objoid = object AND objsubid = 0) commands
    ORDER BY place, command
$$;
COMMENT ON FUNCTION snowflake_adopt.details(oid, oid) IS
    'not to be called: the commands that create what an object has besides its definition, except privileges';

CREATE FUNCTION snowflake_adopt.privileges(class oid, object oid) RETURNS SETOF text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp AS $$
    WITH me AS (
        SELECT concat(CASE kind WHEN 'FUNCTION' THEN 'FUNCTION ' END, name) AS name, owner,
            coalesce(acl, acldefault(CASE kind WHEN 'FUNCTION' THEN 'f'::"char" ELSE 'r'::"char" END, owner)) AS acl
        FROM snowflake_adopt.named(class, object)
        -- Exactly the same privileges, whatever ALTER DEFAULT PRIVILEGES grants on new objects or revokes from their
        -- owner.
        -- mutant: plan-privileges
        WHERE owner IS NOT NULL AND (acl IS NOT NULL OR EXISTS (SELECT FROM pg_default_acl))),
    revoked(who) AS (
        SELECT unnest(ARRAY['PUBLIC', owner::regrole::text]) FROM me
        UNION
        SELECT grantee::regrole::text FROM pg_default_acl CROSS JOIN LATERAL aclexplode(defaclacl) WHERE grantee <> 0),
    granted AS (
        SELECT grantee, is_grantable, string_agg(privilege_type, ', ' ORDER BY privilege_type) AS privileges, name
        FROM me CROSS JOIN LATERAL aclexplode(acl) GROUP BY grantee, is_grantable, name),
    of_columns AS (
        SELECT grantee, is_grantable,
            string_agg(format('%s (%I)', privilege_type, attname), ', ' ORDER BY privilege_type, attnum) AS privileges
        FROM pg_attribute CROSS JOIN LATERAL aclexplode(attacl) WHERE class = 'pg_class'::regclass AND attrelid = object
        GROUP BY grantee, is_grantable)
    SELECT command FROM (
        SELECT 1 AS place, row_number() OVER (ORDER BY who) AS nth,
            format('REVOKE ALL ON %s FROM %s', name, who) AS command
        FROM me CROSS JOIN revoked
        UNION ALL
        SELECT 2, row_number() OVER (ORDER BY grantee, is_grantable), format('GRANT %s ON %s TO %s%s', privileges, name,
            snowflake_adopt.role_name(grantee), CASE WHEN is_grantable THEN ' WITH GRANT OPTION' END)
        FROM granted
        UNION ALL
        SELECT 3, row_number() OVER (ORDER BY privileges, grantee),
            format('GRANT %s ON %s TO %s%s', privileges, object::regclass,
            snowflake_adopt.role_name(grantee), CASE WHEN is_grantable THEN ' WITH GRANT OPTION' END)
        FROM of_columns) commands
    ORDER BY place, nth
$$;
COMMENT ON FUNCTION snowflake_adopt.privileges(oid, oid) IS
    'not to be called: the commands that give a new object the privileges of this one';

-- Definitions are texts, and another session runs the plan: nothing here may depend on a session's settings.
CREATE FUNCTION snowflake_adopt.remake(class oid, object oid, OUT drops text, OUT makes text[], OUT refresh text)
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on SET quote_all_identifiers = off
    -- mutant: plan-settings
    SET datestyle = 'ISO, YMD' SET intervalstyle = 'postgres' SET extra_float_digits = 1 SET lc_monetary = 'C' AS $$
    SELECT format('DROP %s %s', kind, name),
        snowflake_adopt.definition(class, object) || ARRAY(SELECT snowflake_adopt.details(class, object))
            || ARRAY(SELECT snowflake_adopt.privileges(class, object)),
        (SELECT format('REFRESH MATERIALIZED VIEW %s', oid::regclass) FROM pg_class
            WHERE class = 'pg_class'::regclass AND oid = object AND relkind = 'm' AND relispopulated)
    FROM snowflake_adopt.named(class, object)
$$;
COMMENT ON FUNCTION snowflake_adopt.remake(oid, oid) IS
    'not to be called: the command that drops a view, policy, trigger or function, the commands that recreate it, and '
    'the one that fills a materialized view';

-- Objects that can be recreated, too, are named, and all others have their OID.
CREATE FUNCTION snowflake_adopt.uses(class oid, object oid, OUT refclassid oid, OUT refobjid oid, OUT deptype "char")
    RETURNS SETOF record
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp AS $$
    SELECT d.refclassid, d.refobjid, d.deptype FROM pg_depend d WHERE d.classid = class AND d.objid = object
    UNION ALL
    SELECT d.refclassid, d.refobjid, d.deptype FROM pg_rewrite w JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass
        AND d.objid = w.oid
    WHERE class = 'pg_class'::regclass AND ev_class = object
    UNION ALL
    -- mutant: plan-index-dependencies
    SELECT d.refclassid, d.refobjid, d.deptype FROM pg_index x JOIN pg_depend d ON d.classid = 'pg_class'::regclass
        AND d.objid = indexrelid
    WHERE class = 'pg_class'::regclass AND indrelid = object
$$;
COMMENT ON FUNCTION snowflake_adopt.uses(oid, oid) IS
    'not to be called: what an object depends on, or the rules of a view, or its indexes';

CREATE FUNCTION snowflake_adopt.dependencies(class oid, object oid) RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
        SET quote_all_identifiers = off AS $$
    SELECT coalesce(string_agg(DISTINCT CASE WHEN relkind IN ('v', 'm') OR prosqlbody IS NOT NULL THEN name
        ELSE concat_ws(' ', refclassid, refobjid, name) END, ', '), '')
    FROM (
        SELECT refclassid, refobjid,
            (SELECT concat_ws(' ', type, identity) FROM pg_identify_object(refclassid, refobjid, 0)) AS name
        FROM snowflake_adopt.uses(class, object) WHERE deptype = 'n') depends
    LEFT JOIN pg_class c ON refclassid = 'pg_class'::regclass AND c.oid = refobjid
    LEFT JOIN pg_proc p ON refclassid = 'pg_proc'::regclass AND p.oid = refobjid
$$;
COMMENT ON FUNCTION snowflake_adopt.dependencies(oid, oid) IS 'not to be called: what an object depends on, as a text';

-- After an earlier transaction of the plan has recreated an object, the text of its definition can differ, and is left
-- out.
CREATE FUNCTION snowflake_adopt.fingerprint(class oid, object oid, with_definition boolean) RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT md5(concat(owner, CASE WHEN with_definition THEN makes[1] END, makes[2:], refresh,
        snowflake_adopt.dependencies(class, object),
        ARRAY(SELECT attname FROM pg_attribute WHERE class = 'pg_class'::regclass AND attrelid = object AND attnum > 0
            ORDER BY attnum)))
    FROM snowflake_adopt.named(class, object) CROSS JOIN snowflake_adopt.remake(class, object)
$$;
COMMENT ON FUNCTION snowflake_adopt.fingerprint(oid, oid, boolean) IS
    'not to be called: differs if an object has changed';

-- GRANT, REVOKE and CREATE OR REPLACE FUNCTION wait for this. Before PostgreSQL 18, GRANT waits for no lock of a view.
CREATE FUNCTION snowflake_adopt.hold(class oid, object oid) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF snowflake_adopt.may_become((SELECT owner FROM snowflake_adopt.named(class, object))) THEN
        PERFORM FROM pg_class WHERE class = 'pg_class'::regclass AND oid = object FOR UPDATE;
        PERFORM FROM pg_attribute WHERE class = 'pg_class'::regclass AND attrelid = object FOR UPDATE;
        PERFORM FROM pg_proc WHERE class = 'pg_proc'::regclass AND oid = object FOR UPDATE;
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_adopt.hold(oid, oid) IS
    'not to be called: until the end of the transaction, nobody else changes a view or a function whose owner the '
    'caller can become, or its privileges';

CREATE FUNCTION snowflake_adopt.must_be_unchanged_for_caller(kind text, names text[], arguments text[],
    fingerprint text, with_definition boolean)
    RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    address record;
BEGIN
    SELECT classid, objid INTO address FROM pg_get_object_address(kind, names, arguments);
    -- mutant: plan-holds-privileges
    PERFORM snowflake_adopt.hold(address.classid, address.objid);
    -- mutant: plan-fingerprint
    IF snowflake_adopt.fingerprint(address.classid, address.objid, with_definition) IS DISTINCT FROM fingerprint THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('%s has changed since the plan was made',
                pg_describe_object(address.classid, address.objid, 0)),
            HINT = 'Make a new plan, and run it.';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_adopt.must_be_unchanged_for_caller(text, text[], text[], text, boolean) IS
    'not to be called: does what must_be_unchanged() is for';
CREATE FUNCTION snowflake_adopt.must_be_unchanged(kind text, names text[], arguments text[], fingerprint text,
    with_definition boolean) RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_adopt_enter';
COMMENT ON FUNCTION snowflake_adopt.must_be_unchanged(text, text[], text[], text, boolean) IS
    'not to be called: for plans, an error if an object to be recreated has changed';

-- Another role's function can fit bigint better.
CREATE FUNCTION snowflake_adopt.must_depend_on_for_caller(kind text, names text[], arguments text[], dependencies text)
    RETURNS void
    LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    address record;
    present text;
BEGIN
    SELECT classid, objid INTO address FROM pg_get_object_address(kind, names, arguments);
    present := snowflake_adopt.dependencies(address.classid, address.objid);
    -- mutant: plan-dependencies
    IF present IS DISTINCT FROM dependencies THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('%s does not depend on the same objects as before',
                pg_describe_object(address.classid, address.objid, 0)),
            DETAIL = format('It depends on: %s. Before, it depended on: %s.', present, dependencies),
            HINT = 'Drop it, run the plan, and create it as you want it.';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_adopt.must_depend_on_for_caller(text, text[], text[], text) IS
    'not to be called: does what must_depend_on() is for';
CREATE FUNCTION snowflake_adopt.must_depend_on(kind text, names text[], arguments text[], dependencies text)
    RETURNS void
    LANGUAGE c STABLE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_adopt_enter';
COMMENT ON FUNCTION snowflake_adopt.must_depend_on(text, text[], text[], text) IS
    'not to be called: for plans, an error if a recreated object depends on other objects than before';
