-- Recreating the objects that read the columns a plan widens

-- Definitions are texts, and another session runs the plan: nothing here may depend on a session's settings. `class` is the catalog
-- of a view, policy, trigger or function, and `object` its OID.

-- The command that drops a view, a policy, a trigger or a function, the commands that recreate it unchanged, and the last one, which
-- fills a materialized view.
CREATE FUNCTION snowflake_remake(class oid, object oid, OUT owner oid, OUT drops text, OUT makes text[], OUT refresh text)
    LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on SET quote_all_identifiers = off
    -- mutant: plan-settings
    SET datestyle = 'ISO, YMD' SET intervalstyle = 'postgres' SET extra_float_digits = 1 AS $$
DECLARE
    -- As commands name it.
    kind text;
    name text;
    acl aclitem[];
    more text[];
BEGIN
    IF class = 'pg_class'::regclass THEN
        SELECT CASE relkind WHEN 'v' THEN 'VIEW' ELSE 'MATERIALIZED VIEW' END, object::regclass, relowner, relacl,
            ARRAY[concat('CREATE ', CASE relkind WHEN 'v' THEN 'VIEW ' ELSE 'MATERIALIZED VIEW ' END, object::regclass,
                ' USING ' || quote_ident(amname), ' WITH (' || (SELECT string_agg(format('%I = %L', option_name, option_value), ', ') FROM pg_options_to_table(reloptions)) || ')',
                ' TABLESPACE ' || quote_ident(spcname), ' AS', chr(10), rtrim(pg_get_viewdef(object), ';'),
                CASE relkind WHEN 'm' THEN ' WITH NO DATA' END)],
            CASE WHEN relkind = 'm' AND relispopulated THEN format('REFRESH MATERIALIZED VIEW %s', object::regclass) END
            INTO kind, name, owner, acl, makes, refresh
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
    drops := format('DROP %s %s', kind, name);
    makes := makes || more || (SELECT format('COMMENT ON %s %s IS %L', kind, name, description)
        FROM pg_description WHERE classoid = class AND objoid = object AND objsubid = 0);
    -- Exactly the same privileges, whatever ALTER DEFAULT PRIVILEGES grants on new objects or revokes from their owner.
    -- mutant: plan-privileges
    IF owner IS NOT NULL AND (acl IS NOT NULL OR EXISTS (SELECT FROM pg_default_acl)) THEN
        acl := coalesce(acl, acldefault(CASE kind WHEN 'FUNCTION' THEN 'f'::"char" ELSE 'r'::"char" END, owner));
        SELECT makes || array_agg(format('REVOKE ALL ON %s%s FROM %s', CASE kind WHEN 'FUNCTION' THEN 'FUNCTION ' END, name, who) ORDER BY who)
            INTO makes FROM (
                SELECT unnest(ARRAY['PUBLIC', owner::regrole::text]) AS who
                UNION
                SELECT grantee::regrole::text FROM pg_default_acl CROSS JOIN LATERAL aclexplode(defaclacl)
                WHERE grantee <> 0) revoked;
        SELECT makes || array_agg(format('GRANT %s ON %s%s TO %s%s', privileges, CASE kind WHEN 'FUNCTION' THEN 'FUNCTION ' END, name,
                CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END, CASE WHEN is_grantable THEN ' WITH GRANT OPTION' END)
                ORDER BY grantee, is_grantable)
            INTO makes FROM (
                SELECT grantee, is_grantable, string_agg(privilege_type, ', ' ORDER BY privilege_type) AS privileges
                FROM aclexplode(acl) GROUP BY grantee, is_grantable) granted;
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
    makes := array_remove(makes, NULL);
END
$$;
COMMENT ON FUNCTION snowflake_remake(oid, oid) IS
    'not to be called: for snowflake_adopt_plan(), the command that drops a view, policy, trigger or function, and the commands that recreate it';

-- What an object depends on: objects that can be recreated, too, by name, and all others by OID.
CREATE FUNCTION snowflake_dependencies(class oid, object oid) RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
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
    'not to be called: for snowflake_adopt_plan(), what an object depends on';

-- How an object is defined. After an earlier transaction of the plan has recreated it, the text of its definition can differ, and is left out.
CREATE FUNCTION snowflake_fingerprint(class oid, object oid, with_definition boolean) RETURNS text
    LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ours text := (SELECT format('%I', nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg');
    remade record;
    depends text;
    columns text[];
BEGIN
    EXECUTE format('SELECT * FROM %s.snowflake_remake($1, $2)', ours) INTO remade USING class, object;
    EXECUTE format('SELECT %s.snowflake_dependencies($1, $2)', ours) INTO depends USING class, object;
    columns := ARRAY(SELECT attname FROM pg_attribute
        WHERE class = 'pg_class'::regclass AND attrelid = object AND attnum > 0 ORDER BY attnum);
    RETURN md5(concat(remade.owner, CASE WHEN with_definition THEN remade.makes[1] END, remade.makes[2:], remade.refresh, depends, columns));
END
$$;
COMMENT ON FUNCTION snowflake_fingerprint(oid, oid, boolean) IS
    'not to be called: for snowflake_adopt_plan(), whether an object has changed';

-- Before an object is dropped: raises an error unless it is the same as when the plan was made.
CREATE FUNCTION snowflake_must_be(kind text, names text[], arguments text[], fingerprint text, with_definition boolean) RETURNS void
    LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ours text := (SELECT format('%I', nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg');
    class oid;
    object oid;
    present_fingerprint text;
BEGIN
    SELECT classid, objid INTO class, object FROM pg_get_object_address(kind, names, arguments);
    EXECUTE format('SELECT %s.snowflake_fingerprint($1, $2, $3)', ours) INTO present_fingerprint USING class, object, with_definition;
    -- mutant: plan-fingerprint
    IF present_fingerprint IS DISTINCT FROM fingerprint THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('%s has changed since the plan was made', pg_describe_object(class, object, 0)),
            HINT = 'Make a new plan, and run it.';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_must_be(text, text[], text[], text, boolean) IS
    'not to be called: for snowflake_adopt_plan(), an error if an object to be recreated has changed';

-- After an object was recreated: raises an error unless it depends on the same objects. Another role's function can fit bigint better.
CREATE FUNCTION snowflake_must_depend(kind text, names text[], arguments text[], dependencies text) RETURNS void
    LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ours text := (SELECT format('%I', nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg');
    class oid;
    object oid;
    present_dependencies text;
BEGIN
    SELECT classid, objid INTO class, object FROM pg_get_object_address(kind, names, arguments);
    EXECUTE format('SELECT %s.snowflake_dependencies($1, $2)', ours) INTO present_dependencies USING class, object;
    -- mutant: plan-dependencies
    IF present_dependencies IS DISTINCT FROM dependencies THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('%s does not depend on the same objects as before', pg_describe_object(class, object, 0)),
            DETAIL = format('It depends on: %s. Before, it depended on: %s.', present_dependencies, dependencies),
            HINT = 'Drop it, run the plan, and create it as you want it.';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_must_depend(text, text[], text[], text) IS
    'not to be called: for snowflake_adopt_plan(), an error if a recreated object depends on other objects';

-- Why an object cannot be dropped and recreated unchanged; NULL if it can. The owner of the tables must own it, since that owner's code
-- runs while policies and triggers are missing.
CREATE FUNCTION snowflake_why_not_remade(class oid, object oid, of_tables oid) RETURNS text
    LANGUAGE sql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE used(type) AS (
        -- A CHECK of a domain runs as soon as a literal of it is read.
        SELECT refobjid FROM pg_depend
        WHERE refclassid = 'pg_type'::regclass AND (classid = class AND objid = object
            OR classid = 'pg_rewrite'::regclass AND class = 'pg_class'::regclass AND objid IN (SELECT oid FROM pg_rewrite WHERE ev_class = object))
        UNION
        SELECT inner_type FROM used JOIN pg_type t ON t.oid = type
        LEFT JOIN pg_attribute ON attrelid = typrelid AND attnum > 0 AND NOT attisdropped
        CROSS JOIN LATERAL (VALUES (typbasetype), (typelem), (atttypid)) of_type(inner_type) WHERE inner_type <> 0)
    SELECT CASE
        WHEN class NOT IN ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_policy'::regclass, 'pg_trigger'::regclass)
            OR c.relkind NOT IN ('v', 'm') THEN 'it depends on a column that must become bigint'
        WHEN EXISTS (SELECT FROM pg_depend WHERE classid = class AND objid = object AND deptype IN ('e', 'x')) THEN 'it belongs to an extension'
        WHEN EXISTS (SELECT FROM pg_seclabel WHERE classoid = class AND objoid = object) THEN 'it has a security label'
        WHEN c.relpersistence = 't' THEN 'it is temporary'
        WHEN p.prokind <> 'f' THEN 'it is not a function'
        WHEN prosqlbody IS NULL AND p.oid IS NOT NULL THEN 'its body is not SQL-standard'
        -- mutant: plan-several-owners
        WHEN (coalesce(c.relowner, p.proowner, t.relowner) <> of_tables) IS NOT FALSE THEN 'it and the tables that it reads have different owners'
        WHEN NOT pg_has_role(of_tables, 'USAGE') THEN 'it belongs to another role'
        WHEN NOT has_schema_privilege(of_tables, coalesce(c.relnamespace, p.pronamespace), 'CREATE') THEN 'its owner cannot create in its schema'
        WHEN p.proleakproof AND NOT (SELECT rolsuper FROM pg_roles WHERE oid = of_tables) THEN 'its owner cannot make a leakproof function'
        WHEN EXISTS (SELECT FROM used JOIN pg_type y ON y.oid = type WHERE typowner NOT IN (of_tables, 10)) THEN 'it uses a type of another role'
        WHEN EXISTS (SELECT FROM aclexplode(coalesce(c.relacl, p.proacl)) WHERE grantor <> of_tables)
            OR EXISTS (SELECT FROM pg_attribute CROSS JOIN LATERAL aclexplode(attacl) WHERE attrelid = c.oid AND grantor <> of_tables)
            THEN 'other roles have granted privileges on it'
        WHEN c.relkind = 'm' AND (c.relreplident <> 'd' OR EXISTS (SELECT FROM pg_statistic_ext WHERE stxrelid = object)
            OR EXISTS (SELECT FROM pg_index WHERE indrelid = object AND indisclustered)
            OR EXISTS (SELECT FROM pg_class o WHERE o.oid = c.reltoastrelid AND o.reloptions IS NOT NULL)
            OR EXISTS (SELECT FROM pg_attribute a JOIN pg_type y ON y.oid = atttypid
                WHERE attrelid IN (SELECT object UNION ALL SELECT indexrelid FROM pg_index WHERE indrelid = object) AND attnum > 0
                AND (attstattarget >= 0 OR attoptions::text LIKE '%n_distinct%' OR attrelid = object AND (attstorage <> typstorage OR attcompression <> ''))))
            THEN 'it has its own statistics, storage or order'
        WHEN c.relkind = 'm' AND c.relispopulated AND EXISTS (SELECT FROM pg_rewrite w JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid
            JOIN pg_class m ON d.refclassid = 'pg_class'::regclass AND m.oid = d.refobjid AND m.oid <> object AND m.relkind = 'm' AND NOT m.relispopulated
            WHERE w.ev_class = object) THEN 'it has rows, and reads a materialized view that has not been populated'
        WHEN EXISTS (SELECT FROM pg_trigger WHERE class = 'pg_trigger'::regclass AND tgparentid = object) THEN 'its table is partitioned'
        END
    FROM (VALUES (class, object)) o(class, object)
    LEFT JOIN pg_class c ON class = 'pg_class'::regclass AND c.oid = object
    LEFT JOIN pg_proc p ON class = 'pg_proc'::regclass AND p.oid = object
    LEFT JOIN pg_policy l ON class = 'pg_policy'::regclass AND l.oid = object
    LEFT JOIN pg_trigger g ON class = 'pg_trigger'::regclass AND g.oid = object
    LEFT JOIN pg_class t ON t.oid IN (l.polrelid, g.tgrelid)
$$;
COMMENT ON FUNCTION snowflake_why_not_remade(oid, oid, oid) IS
    'not to be called: for snowflake_adopt_plan(), why an object cannot be dropped and recreated';

-- For the objects that read these columns, also through others: the commands that lock, drop and recreate them, in their order, or why a
-- plan cannot. `already_remade` has the objects that an earlier transaction of the plan recreates.
CREATE FUNCTION snowflake_dependents(
    relations oid[], columns name[], already_remade oid[],
    OUT locks text[], OUT drops text[], OUT makes text[], OUT objects oid[], OUT obstacles text[])
    LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
    ours text := (SELECT format('%I', nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg');
    of_tables oid := (SELECT max(relowner) FROM pg_class WHERE pg_class.oid = ANY (relations) HAVING count(DISTINCT relowner) = 1);
    must text := 'SELECT ' || replace(ours, '%', '%%') || '.%s(%L::pg_catalog.text, %L::pg_catalog.text[], %L::pg_catalog.text[], %L::pg_catalog.text';
    -- Parsing a definition can run code of the owner, such as a CHECK of a domain.
    -- mutant: plan-of-owner
    of_owner text := CASE WHEN of_tables = quote_ident(current_user)::regrole THEN '%s' ELSE
        replace(format('SELECT %s.snowflake_run_as(%L::pg_catalog.regrole, ', ours, of_tables::regrole), '%', '%%') || '%L::pg_catalog.text)' END;
    reader record;
    reason text;
    remade record;
    fingerprint text;
    depends text;
    -- In the order in which they are dropped.
    classes oid[] := '{}';
    checks text[] := '{}';
    refreshes text[] := '{}';
    address record;
BEGIN
    locks := '{}';
    drops := '{}';
    makes := '{}';
    objects := '{}';
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
            -- A view is recreated with its rules and triggers.
            WHERE w.ev_class IS DISTINCT FROM r.object AND t.tgrelid IS DISTINCT FROM r.object AND depth < 100)
        SELECT class, object, bool_or(by_type) AS by_type, max(depth) AS depth
        FROM readers GROUP BY class, object ORDER BY depth DESC, class, object
    LOOP
        EXECUTE format('SELECT %s.snowflake_why_not_remade($1, $2, $3)', ours) INTO reason USING reader.class, reader.object, of_tables;
        reason := CASE WHEN reader.by_type THEN 'it depends on a column that must become bigint'
            WHEN reader.depth = 100 THEN 'it reads itself, or the columns through a hundred others'
            ELSE reason END;
        IF reason IS NULL THEN
            classes := classes || reader.class;
            objects := objects || reader.object;
        ELSE
            obstacles := obstacles || format('%s cannot be dropped and recreated: %s.',
                pg_describe_object(reader.class, reader.object, 0), reason);
        END IF;
    END LOOP;
    -- Against other DDL, until COMMIT. LOCK on a view would lock all that it reads, and LOCK refuses a materialized view.
    SELECT coalesce(array_agg(command ORDER BY nth), '{}') INTO locks FROM (
        SELECT CASE WHEN c.relkind IN ('v', 'm') THEN format('ALTER %s %s OWNER TO %s', CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'MATERIALIZED VIEW' END,
                c.oid::regclass, c.relowner::regrole) ELSE format('LOCK TABLE ONLY %s IN ACCESS EXCLUSIVE MODE', c.oid::regclass) END AS command, min(nth) AS nth
        FROM unnest(classes, objects) WITH ORDINALITY u(class, object, nth)
        LEFT JOIN pg_policy l ON class = 'pg_policy'::regclass AND l.oid = object
        LEFT JOIN pg_trigger g ON class = 'pg_trigger'::regclass AND g.oid = object
        JOIN pg_class c ON c.oid = coalesce(l.polrelid, g.tgrelid, CASE class WHEN 'pg_class'::regclass THEN object END)
        -- mutant: plan-locks-readers
        GROUP BY c.oid) locked;
    FOR reader IN SELECT class, object FROM unnest(classes, objects) u(class, object) LOOP
        SELECT type, object_names, object_args INTO address FROM pg_identify_object_as_address(reader.class, reader.object, 0);
        EXECUTE format('SELECT * FROM %s.snowflake_remake($1, $2)', ours) INTO remade USING reader.class, reader.object;
        EXECUTE format('SELECT %s.snowflake_fingerprint($1, $2, $3), %s.snowflake_dependencies($1, $2)', ours, ours)
            INTO fingerprint, depends USING reader.class, reader.object, reader.object <> ALL (already_remade);
        drops := drops || (format(must, 'snowflake_must_be', address.type, address.object_names, address.object_args, fingerprint)
            || format(', %L::pg_catalog.bool)', reader.object <> ALL (already_remade))) || remade.drops;
        makes := ARRAY(SELECT format(of_owner, command) FROM unnest(remade.makes) WITH ORDINALITY u(command, nth) ORDER BY nth) || makes;
        IF remade.refresh IS NOT NULL THEN
            refreshes := format(of_owner, remade.refresh) || refreshes;
        END IF;
        checks := checks || (format(must, 'snowflake_must_depend', address.type, address.object_names, address.object_args, depends) || ')');
    END LOOP;
    -- Last, the commands that call functions.
    makes := makes || checks || refreshes;
END
$$;
COMMENT ON FUNCTION snowflake_dependents(oid[], name[], oid[]) IS
    'not to be called: for snowflake_adopt_plan(), the commands for the objects that read columns that become bigint';
