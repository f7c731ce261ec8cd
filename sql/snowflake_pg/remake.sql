-- Making again what reads the columns that a plan widens

-- The command that drops a view, a policy, a trigger or a function, and those that make it again as it was.
CREATE FUNCTION snowflake_remake(class oid, object oid) RETURNS text[]
    LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    -- Texts as the plan runs them.
    SET standard_conforming_strings = on AS $$
DECLARE
    -- As commands name it.
    kind text;
    name text;
    owner oid;
    acl aclitem[];
    makes text[];
    more text[];
BEGIN
    IF class = 'pg_class'::regclass THEN
        SELECT CASE relkind WHEN 'v' THEN 'VIEW' ELSE 'MATERIALIZED VIEW' END, object::regclass, relowner, relacl,
            ARRAY[concat('CREATE ', CASE relkind WHEN 'v' THEN 'VIEW ' ELSE 'MATERIALIZED VIEW ' END, object::regclass,
                ' USING ' || quote_ident(amname), ' WITH (' || (SELECT string_agg(format('%I = %L', option_name, option_value), ', ') FROM pg_options_to_table(reloptions)) || ')',
                ' TABLESPACE ' || quote_ident(spcname), ' AS', chr(10), rtrim(pg_get_viewdef(object), ';'),
                CASE relkind WHEN 'm' THEN ' WITH NO DATA' END)]
            INTO kind, name, owner, acl, makes
            FROM pg_class c LEFT JOIN pg_am a ON a.oid = relam LEFT JOIN pg_tablespace t ON t.oid = reltablespace
            WHERE c.oid = object;
        SELECT array_agg(command ORDER BY place, command) INTO more FROM (
            SELECT 1 AS place, pg_get_indexdef(indexrelid) AS command FROM pg_index WHERE indrelid = object
            UNION ALL
            SELECT 2, pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = object AND NOT tgisinternal
            UNION ALL
            SELECT 3, pg_get_ruledef(oid) FROM pg_rewrite WHERE ev_class = object AND rulename <> '_RETURN'
            UNION ALL
            SELECT 4, format('ALTER VIEW %s ALTER COLUMN %I SET DEFAULT %s', name, attname, pg_get_expr(adbin, adrelid))
            FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum WHERE adrelid = object
            UNION ALL
            SELECT 6, format('REFRESH MATERIALIZED VIEW %s', name) FROM pg_class
            WHERE oid = object AND relkind = 'm' AND relispopulated
            UNION ALL
            SELECT 5, format('COMMENT ON COLUMN %s.%I IS %L', name, attname, description)
            FROM pg_description JOIN pg_attribute ON attrelid = objoid AND attnum = objsubid
            WHERE classoid = class AND objoid = object AND objsubid > 0) commands;
    ELSIF class = 'pg_proc'::regclass THEN
        SELECT 'FUNCTION', object::regprocedure, proowner, proacl, ARRAY[pg_get_functiondef(object)]
            INTO kind, name, owner, acl, makes FROM pg_proc WHERE oid = object;
    ELSIF class = 'pg_policy'::regclass THEN
        SELECT 'POLICY', format('%I ON %s', polname, polrelid::regclass), ARRAY[concat(
                format('CREATE POLICY %I ON %s AS %s FOR %s TO %s', polname, polrelid::regclass,
                    CASE WHEN polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END,
                    CASE polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE' WHEN 'd' THEN 'DELETE' ELSE 'ALL' END,
                    (SELECT string_agg(CASE role WHEN 0 THEN 'PUBLIC' ELSE role::regrole::text END, ', ') FROM unnest(polroles) role)),
                ' USING (' || pg_get_expr(polqual, polrelid) || ')', ' WITH CHECK (' || pg_get_expr(polwithcheck, polrelid) || ')')]
            INTO kind, name, makes FROM pg_policy WHERE oid = object;
    ELSE
        SELECT 'TRIGGER', format('%I ON %s', tgname, tgrelid::regclass), pg_get_triggerdef(object) || CASE tgenabled
                WHEN 'O' THEN '{}' ELSE ARRAY[format('ALTER TABLE %s %s TRIGGER %I', tgrelid::regclass,
                    CASE tgenabled WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA' ELSE 'ENABLE ALWAYS' END, tgname)] END
            INTO kind, name, makes FROM pg_trigger WHERE oid = object;
    END IF;
    IF owner <> quote_ident(current_user)::regrole THEN
        -- Before anything of it runs.
        makes := makes || format('ALTER %s %s OWNER TO %s', kind, name, owner::regrole);
    END IF;
    makes := makes || more || (SELECT format('COMMENT ON %s %s IS %L', kind, name, description)
        FROM pg_description WHERE classoid = class AND objoid = object AND objsubid = 0);
    -- Neither more nor less, whatever ALTER DEFAULT PRIVILEGES gives to new objects.
    IF owner IS NOT NULL AND (acl IS NOT NULL OR EXISTS (SELECT FROM pg_default_acl)) THEN
        acl := coalesce(acl, acldefault(CASE kind WHEN 'FUNCTION' THEN 'f'::"char" ELSE 'r'::"char" END, owner));
        SELECT makes || array_agg(format('REVOKE ALL ON %s%s FROM %s', CASE kind WHEN 'FUNCTION' THEN 'FUNCTION ' END, name, who) ORDER BY who)
            INTO makes FROM (
                SELECT 'PUBLIC' AS who
                UNION
                SELECT grantee::regrole::text FROM pg_default_acl CROSS JOIN LATERAL aclexplode(defaclacl)
                WHERE grantee NOT IN (0, owner)) revoked;
        SELECT makes || array_agg(format('GRANT %s ON %s%s TO %s%s', privileges, CASE kind WHEN 'FUNCTION' THEN 'FUNCTION ' END, name,
                CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END, CASE WHEN is_grantable THEN ' WITH GRANT OPTION' END)
                ORDER BY grantee, is_grantable)
            INTO makes FROM (
                SELECT grantee, is_grantable, string_agg(privilege_type, ', ' ORDER BY privilege_type) AS privileges
                FROM aclexplode(acl) WHERE grantee <> owner GROUP BY grantee, is_grantable) granted;
    END IF;
    IF class = 'pg_class'::regclass THEN
        SELECT makes || array_agg(format('GRANT %s ON %s TO %s%s', privileges, name,
                CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END, CASE WHEN is_grantable THEN ' WITH GRANT OPTION' END)
                ORDER BY privileges, grantee)
            INTO makes FROM (
                SELECT grantee, is_grantable, string_agg(format('%s (%I)', privilege_type, attname), ', ' ORDER BY privilege_type, attnum) AS privileges
                FROM pg_attribute CROSS JOIN LATERAL aclexplode(attacl) WHERE attrelid = object AND attacl IS NOT NULL
                GROUP BY grantee, is_grantable) granted;
    END IF;
    RETURN array_remove(format('DROP %s %s', kind, name) || makes, NULL);
END
$$;
COMMENT ON FUNCTION snowflake_remake(oid, oid) IS
    'not to be called: for snowflake_adopt_plan(), the command that drops a view, policy, trigger or function, and those that make it again';

-- On what a view, a policy, a trigger or a function depends: what can be made again, too, by its name, and all else by its OID.
CREATE FUNCTION snowflake_dependencies(class oid, object oid) RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(string_agg(DISTINCT CASE WHEN relkind IN ('v', 'm') OR prosqlbody IS NOT NULL THEN name
        ELSE concat_ws(' ', refclassid, refobjid, name) END, ', '), '')
    FROM (
        SELECT refclassid, refobjid, (SELECT concat_ws(' ', type, identity) FROM pg_identify_object(refclassid, refobjid, 0)) AS name
        FROM pg_depend
        WHERE deptype = 'n' AND (classid = class AND objid = object OR classid = 'pg_rewrite'::regclass AND class = 'pg_class'::regclass
            AND objid IN (SELECT oid FROM pg_rewrite WHERE ev_class = object))) depends
    LEFT JOIN pg_class c ON refclassid = 'pg_class'::regclass AND c.oid = refobjid
    LEFT JOIN pg_proc p ON refclassid = 'pg_proc'::regclass AND p.oid = refobjid
$$;
COMMENT ON FUNCTION snowflake_dependencies(oid, oid) IS
    'not to be called: for snowflake_adopt_plan(), on what an object depends';

-- How an object is made. Of what another part of the plan has made again, the text of the definition can differ, and is left out.
CREATE FUNCTION snowflake_fingerprint(class oid, object oid, with_definition boolean) RETURNS text
    LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ours text := (SELECT format('%I', nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg');
    made text[];
    depends text;
    columns text[];
BEGIN
    EXECUTE format('SELECT %s.snowflake_remake($1, $2), %s.snowflake_dependencies($1, $2)', ours, ours)
        INTO made, depends USING class, object;
    columns := ARRAY(SELECT attname FROM pg_attribute
        WHERE class = 'pg_class'::regclass AND attrelid = object AND attnum > 0 ORDER BY attnum);
    RETURN md5(concat(made[1], CASE WHEN with_definition THEN made[2] END, made[3:], depends, columns));
END
$$;
COMMENT ON FUNCTION snowflake_fingerprint(oid, oid, boolean) IS
    'not to be called: for snowflake_adopt_plan(), whether an object has changed';

-- Raises an error unless an object is as it was when the plan was made; or, with NULL, made again, depends on the same: a function of somebody
-- else can fit bigint better.
CREATE FUNCTION snowflake_must_be(kind text, names text[], arguments text[], planned text, fingerprint_with_definition boolean) RETURNS void
    LANGUAGE plpgsql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ours text := (SELECT format('%I', nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg');
    class oid;
    object oid;
    found text;
BEGIN
    SELECT classid, objid INTO class, object FROM pg_get_object_address(kind, names, arguments);
    IF fingerprint_with_definition IS NULL THEN
        EXECUTE format('SELECT %s.snowflake_dependencies($1, $2)', ours) INTO found USING class, object;
    ELSE
        EXECUTE format('SELECT %s.snowflake_fingerprint($1, $2, $3)', ours) INTO found USING class, object, fingerprint_with_definition;
    END IF;
    IF found <> planned AND fingerprint_with_definition IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('%s has changed since the plan was made', pg_describe_object(class, object, 0)),
            HINT = 'Make the plan anew, and run it.';
    ELSIF found <> planned THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('%s depends on something else than before', pg_describe_object(class, object, 0)),
            DETAIL = format('It depends on: %s. It did on: %s.', found, planned),
            HINT = 'Drop it, run the plan, and create it as it is to be.';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_must_be(text, text[], text[], text, boolean) IS
    'not to be called: for snowflake_adopt_plan(), an error if what is made again is not as it was';

-- What reads these columns, and what reads that: the commands that drop it and make it again, in their order, or why not. All must
-- be of one owner, whose code runs while policies and triggers are missing.
CREATE FUNCTION snowflake_around(
    relations oid[], columns name[], at_once boolean, OUT drops text[], OUT makes text[], OUT obstacles text[])
    LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ours text := (SELECT format('%I', nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg');
    of_tables oid := (SELECT max(relowner) FROM pg_class WHERE pg_class.oid = ANY (relations) HAVING count(DISTINCT relowner) = 1);
    check_as text := 'SELECT ' || ours || '.snowflake_must_be(%L::pg_catalog.text, %L::pg_catalog.text[], %L::pg_catalog.text[], '
        '%L::pg_catalog.text, %L::pg_catalog.bool)';
    reader record;
    remade text[];
    fingerprint text;
    -- In the order in which they are dropped.
    readers oid[] := '{}';
    classes oid[] := '{}';
    checks text[] := '{}';
    refresh text;
    refreshes text[] := '{}';
    address record;
    depends text;
BEGIN
    drops := '{}';
    makes := '{}';
    obstacles := '{}';
    FOR reader IN
        WITH RECURSIVE members(member, col) AS (
            SELECT rel, col FROM unnest(relations, columns) u(rel, col)
            UNION
            SELECT inhrelid, col FROM members JOIN pg_inherits ON inhparent = member),
        readers(class, object, by_type, depth) AS (
            SELECT CASE WHEN w.oid IS NULL THEN d.classid ELSE 'pg_class'::regclass END, coalesce(w.ev_class, d.objid), false, 1
            FROM members JOIN pg_attribute a ON attrelid = member AND attname = col
            JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = member AND d.refobjsubid = a.attnum
            LEFT JOIN pg_rewrite w ON d.classid = 'pg_rewrite'::regclass AND w.oid = d.objid AND rulename = '_RETURN'
            LEFT JOIN pg_trigger t ON d.classid = 'pg_trigger'::regclass AND t.oid = d.objid
            WHERE w.oid IS NOT NULL OR d.classid IN ('pg_policy'::regclass, 'pg_proc'::regclass)
                OR tgparentid = 0 AND NOT tgisinternal
            UNION
            SELECT CASE WHEN w.oid IS NULL THEN d.classid ELSE 'pg_class'::regclass END, coalesce(w.ev_class, d.objid),
                d.refclassid <> r.class, depth + 1
            FROM readers r
            LEFT JOIN pg_class v ON r.class = 'pg_class'::regclass AND v.oid = r.object
            LEFT JOIN pg_type y ON y.oid = v.reltype
            JOIN pg_depend d ON d.deptype = 'n' AND (d.refclassid = r.class AND d.refobjid = r.object
                OR d.refclassid = 'pg_type'::regclass AND d.refobjid IN (y.oid, y.typarray))
            LEFT JOIN pg_rewrite w ON d.classid = 'pg_rewrite'::regclass AND w.oid = d.objid
            LEFT JOIN pg_trigger t ON d.classid = 'pg_trigger'::regclass AND t.oid = d.objid
            -- A view is made again with its rules and triggers.
            WHERE w.ev_class IS DISTINCT FROM r.object AND t.tgrelid IS DISTINCT FROM r.object AND depth < 100)
        SELECT class, object, max(depth) AS depth, CASE
            WHEN bool_or(by_type) OR class NOT IN ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_policy'::regclass, 'pg_trigger'::regclass)
                OR min(c.relkind::text) NOT IN ('v', 'm') THEN 'it reads what must become bigint'
            WHEN EXISTS (SELECT FROM pg_depend WHERE classid = class AND objid = object AND deptype = 'e') THEN 'an extension owns it'
            WHEN min(c.relpersistence::text) = 't' THEN 'it is temporary'
            WHEN min(p.prokind::text) <> 'f' THEN 'it is no function'
            WHEN (min(o.owner) <> of_tables) IS NOT FALSE THEN 'it and the tables that it reads have several owners'
            WHEN NOT pg_has_role(of_tables, 'USAGE') THEN 'it belongs to another role'
            WHEN EXISTS (SELECT FROM aclexplode(min(o.acl::text)::aclitem[]) WHERE grantor <> of_tables)
                OR EXISTS (SELECT privilege_type FROM aclexplode(acldefault(CASE WHEN class = 'pg_proc'::regclass THEN 'f'::"char" ELSE 'r'::"char" END, of_tables))
                    WHERE grantee = of_tables AND min(o.acl::text) IS NOT NULL
                    EXCEPT SELECT privilege_type FROM aclexplode(min(o.acl::text)::aclitem[]) WHERE grantee = of_tables)
                THEN 'other roles have granted privileges on it, or its owner lacks some'
            WHEN min(c.relkind::text) = 'm' AND (EXISTS (SELECT FROM pg_statistic_ext WHERE stxrelid = object)
                OR EXISTS (SELECT FROM pg_index WHERE indrelid = object AND indisclustered)
                OR EXISTS (SELECT FROM pg_attribute WHERE attrelid = object AND attnum > 0 AND (attstattarget >= 0 OR attoptions::text LIKE '%n_distinct%')))
                THEN 'it has statistics or an order of its own'
            WHEN class = 'pg_trigger'::regclass AND EXISTS (SELECT FROM pg_trigger WHERE tgparentid = object)
                THEN 'its table is partitioned'
            END AS reason
        FROM readers
        LEFT JOIN pg_class c ON class = 'pg_class'::regclass AND c.oid = object
        LEFT JOIN pg_proc p ON class = 'pg_proc'::regclass AND p.oid = object
        LEFT JOIN pg_policy l ON class = 'pg_policy'::regclass AND l.oid = object
        LEFT JOIN pg_trigger g ON class = 'pg_trigger'::regclass AND g.oid = object
        LEFT JOIN pg_class t ON t.oid IN (l.polrelid, g.tgrelid)
        CROSS JOIN LATERAL (SELECT coalesce(c.relowner, p.proowner, t.relowner) AS owner, coalesce(c.relacl, p.proacl) AS acl) o
        GROUP BY class, object ORDER BY depth DESC, class, object
    LOOP
        IF reader.reason IS NOT NULL THEN
            obstacles := obstacles || format('%s cannot be dropped and made again: %s.',
                pg_describe_object(reader.class, reader.object, 0), reader.reason);
        ELSE
            classes := classes || reader.class;
            readers := readers || reader.object;
        END IF;
    END LOOP;
    FOR reader IN SELECT class, object FROM unnest(classes, readers) u(class, object) LOOP
        SELECT type, object_names, object_args INTO address FROM pg_identify_object_as_address(reader.class, reader.object, 0);
        EXECUTE format('SELECT %s.snowflake_remake($1, $2), %s.snowflake_fingerprint($1, $2, $3), %s.snowflake_dependencies($1, $2)', ours, ours, ours)
            INTO remade, fingerprint, depends USING reader.class, reader.object, at_once;
        refresh := (SELECT c FROM unnest(remade) c WHERE c LIKE 'REFRESH MATERIALIZED VIEW %');
        drops := drops || format(check_as, address.type, address.object_names, address.object_args, fingerprint, at_once)
            || remade[1];
        makes := array_remove(remade[2:], refresh) || makes;
        refreshes := refresh || refreshes;
        checks := checks || format(check_as, address.type, address.object_names, address.object_args, depends, NULL);
    END LOOP;
    -- Only then what calls functions.
    makes := makes || checks || array_remove(refreshes, NULL);
END
$$;
COMMENT ON FUNCTION snowflake_around(oid[], name[], boolean) IS
    'not to be called: for snowflake_adopt_plan(), the commands for what reads columns that become bigint';
