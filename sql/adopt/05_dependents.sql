-- The objects that read the columns a plan widens: which, whether they can be recreated, and the commands that do so

CREATE FUNCTION snowflake_adopt.readers(
    relations regclass[], columns name[], OUT class oid, OUT object oid, OUT by_type boolean, OUT depth integer)
    RETURNS SETOF record
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE readers(class, object, by_type, depth) AS (
        SELECT CASE WHEN w.oid IS NULL THEN d.classid ELSE 'pg_class'::regclass END, coalesce(w.ev_class, d.objid),
            false, 1
        FROM unnest(relations, columns) u(rel, col) CROSS JOIN LATERAL snowflake_adopt.members(rel) member
        JOIN pg_attribute a ON attrelid = member AND attname = col
        JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = member AND d.refobjsubid = a.attnum
        LEFT JOIN pg_rewrite w ON d.classid = 'pg_rewrite'::regclass AND w.oid = d.objid AND rulename = '_RETURN'
        LEFT JOIN pg_trigger t ON d.classid = 'pg_trigger'::regclass AND t.oid = d.objid
        WHERE w.oid IS NOT NULL OR d.classid IN ('pg_policy'::regclass, 'pg_proc'::regclass)
            -- That of a migration goes with the columns.
            OR tgparentid = 0 AND NOT tgisinternal AND tgname <> '~snowflake_adopt'
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
    SELECT class, object, bool_or(by_type), max(depth) FROM readers GROUP BY class, object
$$;
COMMENT ON FUNCTION snowflake_adopt.readers(regclass[], name[]) IS
    'not to be called: the objects that read these columns, also through others; how deep; and whether they do so by '
    'the row type of a view';

-- A CHECK of a domain runs as soon as a literal of it is read.
CREATE FUNCTION snowflake_adopt.types_used(class oid, object oid) RETURNS SETOF oid
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE used(type) AS (
        SELECT refobjid FROM snowflake_adopt.uses(class, object) WHERE refclassid = 'pg_type'::regclass
        UNION
        SELECT inner_type FROM used JOIN pg_type t ON t.oid = type
        LEFT JOIN pg_attribute ON attrelid = typrelid AND attnum > 0 AND NOT attisdropped
        LEFT JOIN pg_range r ON t.oid IN (rngtypid, rngmultitypid)
        CROSS JOIN LATERAL (VALUES (typbasetype), (typelem), (atttypid), (rngsubtype)) of_type(inner_type)
            WHERE inner_type <> 0)
    SELECT type FROM used
$$;
COMMENT ON FUNCTION snowflake_adopt.types_used(oid, oid) IS
    'not to be called: the types that an object uses, and the types in these';

CREATE FUNCTION snowflake_adopt.why_not_refilled(object oid) RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE
        WHEN c.relreplident <> 'd' OR EXISTS (SELECT FROM pg_statistic_ext WHERE stxrelid = object)
            OR EXISTS (SELECT FROM pg_index WHERE indrelid = object AND indisclustered)
            OR EXISTS (SELECT FROM pg_class o WHERE o.oid = c.reltoastrelid AND o.reloptions IS NOT NULL)
            OR EXISTS (SELECT FROM pg_attribute a JOIN pg_type y ON y.oid = atttypid
                WHERE attrelid IN (SELECT object UNION ALL SELECT indexrelid FROM pg_index WHERE indrelid = object)
                    AND attnum > 0
                AND (attstattarget >= 0 OR attoptions::text LIKE '%n_distinct%' OR attrelid = object
                    AND (attstorage <> typstorage OR attcompression <> '')))
            THEN 'it has its own statistics, storage or order'
        WHEN c.relispopulated AND EXISTS (SELECT FROM pg_rewrite w
            JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid
            JOIN pg_class m ON d.refclassid = 'pg_class'::regclass AND m.oid = d.refobjid AND m.oid <> object
                AND m.relkind = 'm' AND NOT m.relispopulated
            WHERE w.ev_class = object) THEN 'it has rows, and reads a materialized view that has not been populated'
        END
    FROM pg_class c WHERE c.oid = object AND relkind = 'm'
$$;
COMMENT ON FUNCTION snowflake_adopt.why_not_refilled(oid) IS
    'not to be called: why the data of a materialized view cannot be recreated unchanged; NULL if it can';

-- The owner of the tables must own the object, since that owner's code runs while policies and triggers are missing.
CREATE FUNCTION snowflake_adopt.why_not_remade(class oid, object oid, of_tables oid) RETURNS text
    LANGUAGE sql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE
        WHEN class NOT IN ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_policy'::regclass, 'pg_trigger'::regclass)
            OR c.relkind NOT IN ('v', 'm') THEN 'it depends on a column that must become bigint'
        WHEN EXISTS (SELECT FROM pg_depend WHERE classid = class AND objid = object AND deptype IN ('e', 'x'))
            THEN 'it belongs to an extension'
        WHEN EXISTS (SELECT FROM pg_seclabel WHERE classoid = class AND objoid = object) THEN 'it has a security label'
        WHEN c.relpersistence = 't' THEN 'it is temporary'
        WHEN p.prokind <> 'f' THEN 'it is not a function'
        WHEN prosqlbody IS NULL AND p.oid IS NOT NULL THEN 'its body is not SQL-standard'
        -- mutant: plan-several-owners
        WHEN (coalesce(c.relowner, p.proowner, t.relowner) <> of_tables) IS NOT FALSE
            THEN 'it and the tables that it reads have different owners'
        WHEN NOT pg_has_role(snowflake_adopt.caller(), of_tables, 'USAGE') THEN 'it belongs to another role'
        WHEN NOT has_schema_privilege(of_tables, coalesce(c.relnamespace, p.pronamespace), 'CREATE')
            THEN 'its owner cannot create in its schema'
        WHEN snowflake_adopt.lesser_owner(coalesce(c.relnamespace, p.pronamespace), of_tables) IS NOT NULL
            THEN format('its schema belongs to %s, whose rights its owner has',
                snowflake_adopt.lesser_owner(coalesce(c.relnamespace, p.pronamespace), of_tables))
        WHEN p.proleakproof AND NOT (SELECT rolsuper FROM pg_roles WHERE oid = of_tables)
            THEN 'its owner cannot make a leakproof function'
        WHEN EXISTS (SELECT FROM pg_type y WHERE y.oid IN (SELECT snowflake_adopt.types_used(class, object))
            AND typowner NOT IN (of_tables, 10))
            THEN 'it uses a type of another role'
        WHEN EXISTS (SELECT FROM aclexplode(coalesce(c.relacl, p.proacl)) WHERE grantor <> of_tables)
            OR EXISTS (SELECT FROM pg_attribute CROSS JOIN LATERAL aclexplode(attacl) WHERE attrelid = c.oid
                AND grantor <> of_tables)
            THEN 'other roles have granted privileges on it'
        WHEN EXISTS (SELECT FROM pg_trigger WHERE class = 'pg_trigger'::regclass AND tgparentid = object)
            THEN 'its table is partitioned'
        ELSE snowflake_adopt.why_not_refilled(c.oid)
        END
    FROM (VALUES (class, object)) o(class, object)
    LEFT JOIN pg_class c ON class = 'pg_class'::regclass AND c.oid = object
    LEFT JOIN pg_proc p ON class = 'pg_proc'::regclass AND p.oid = object
    LEFT JOIN pg_policy l ON class = 'pg_policy'::regclass AND l.oid = object
    LEFT JOIN pg_trigger g ON class = 'pg_trigger'::regclass AND g.oid = object
    LEFT JOIN pg_class t ON t.oid IN (l.polrelid, g.tgrelid)
$$;
COMMENT ON FUNCTION snowflake_adopt.why_not_remade(oid, oid, oid) IS
    'not to be called: why an object cannot be dropped and recreated unchanged by the owner of the tables; NULL if it '
    'can';

-- In each transaction of a plan, in the order in which they are dropped. `is_again` if an earlier transaction recreates
-- the object, too.
CREATE FUNCTION snowflake_adopt.dependents(
    relations regclass[], columns name[], at_once boolean,
    OUT transaction integer, OUT nth bigint, OUT class oid, OUT object oid, OUT owner oid, OUT is_again boolean,
    OUT obstacle text)
    RETURNS SETOF record
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp AS $$
    WITH widened AS (
        SELECT transaction, array_agg(relation) AS rels, array_agg(col) AS cols,
            CASE WHEN count(DISTINCT relowner) = 1 THEN max(relowner) END AS owner
        FROM snowflake_adopt.rewrites(relations, columns, at_once) CROSS JOIN LATERAL unnest(narrow) col
            JOIN pg_class c ON c.oid = relation
        GROUP BY transaction)
    SELECT transaction, row_number() OVER (PARTITION BY transaction ORDER BY depth DESC, class, object), class, object,
        owner,
        transaction > min(transaction) OVER (PARTITION BY class, object),
        CASE WHEN by_type THEN 'it depends on a column that must become bigint'
            WHEN depth = 100 THEN 'it reads itself, or the columns through a hundred others'
            ELSE snowflake_adopt.why_not_remade(class, object, owner) END
    FROM widened CROSS JOIN LATERAL snowflake_adopt.readers(rels, cols)
$$;
COMMENT ON FUNCTION snowflake_adopt.dependents(regclass[], name[], boolean) IS
    'not to be called: the objects that a plan recreates, and why it cannot';

-- snowflake_adopt.commands() has the other places.
CREATE FUNCTION snowflake_adopt.recreates(
    relations regclass[], columns name[], at_once boolean,
    OUT transaction integer, OUT place integer, OUT nth bigint, OUT command text, OUT note text)
    RETURNS SETOF record
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on SET quote_all_identifiers = off AS $$
    WITH dependents AS (
        SELECT d.*, remade.*, format('%L, %L, %L', address.type, object_names, object_args) AS arguments
        FROM snowflake_adopt.dependents(relations, columns, at_once) d
        CROSS JOIN LATERAL snowflake_adopt.remake(class, object) remade
        CROSS JOIN LATERAL pg_identify_object_as_address(class, object, 0) address)
    SELECT DISTINCT transaction, 2, 0::bigint, 'SELECT ' || (
            SELECT string_agg(format('pg_catalog.set_config(%L, %L, true)', setting, value), ', ' ORDER BY nth)
            FROM (VALUES (1, 'search_path', 'pg_catalog, pg_temp'), (2, 'standard_conforming_strings', 'on'),
                (3, 'check_function_bodies', 'off'),
                (4, 'datestyle', 'ISO, YMD'), (5, 'intervalstyle', 'postgres'), (6, 'array_nulls', 'on'),
                (7, 'xmloption', 'content'),
                (8, 'default_tablespace', ''), (9, 'lc_monetary', 'C')) settings(nth, setting, value)),
        'The commands that recreate objects are written for these settings.'
    FROM dependents
    UNION ALL
    -- Against other DDL, until COMMIT. LOCK on a view would lock all that it reads, and LOCK refuses a materialized
    -- view. As the owner: whoever owns the schema could give another view its name for a moment.
    -- mutant: plan-locks-as-owner
    SELECT transaction, 4, min(nth),
        CASE WHEN c.relkind IN ('v', 'm') THEN snowflake_adopt.as_owner(c.relowner, format('ALTER %s %s OWNER TO %s',
            CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'MATERIALIZED VIEW' END, c.oid::regclass, c.relowner::regrole))
        ELSE format('LOCK TABLE ONLY %s IN ACCESS EXCLUSIVE MODE', c.oid::regclass) END,
        'Prevents changes of it until COMMIT. Changes nothing itself.'
    FROM dependents
    LEFT JOIN pg_policy l ON class = 'pg_policy'::regclass AND l.oid = object
    LEFT JOIN pg_trigger g ON class = 'pg_trigger'::regclass AND g.oid = object
    JOIN pg_class c ON c.oid = coalesce(l.polrelid, g.tgrelid, CASE class WHEN 'pg_class'::regclass THEN object END)
    -- mutant: plan-locks-readers
    GROUP BY transaction, c.oid
    UNION ALL
    -- mutant: plan-drops-as-owner
    SELECT transaction, 5, 2 * nth + is_drop::integer, CASE WHEN is_drop THEN snowflake_adopt.as_owner(owner, drops)
        ELSE
            format('SELECT snowflake_adopt.must_be_unchanged(%s, %L, %L)', arguments,
                snowflake_adopt.fingerprint(class, object, NOT is_again), NOT is_again) END,
        'It reads a column that must become bigint, and is recreated below.'
    FROM dependents CROSS JOIN (VALUES (false), (true)) v(is_drop)
    UNION ALL
    -- Parsing a definition can run code of the owner, such as a CHECK of a domain.
    -- mutant: plan-of-owner
    SELECT transaction, 9, row_number() OVER (ORDER BY dependents.nth DESC, u.nth),
        -- The indexes of a materialized view come after it.
        CASE WHEN class = 'pg_class'::regclass AND u.nth > 1 THEN snowflake_adopt.as_owner_of(object, owner, make)
            ELSE snowflake_adopt.as_owner(owner, make) END, 'Unchanged.'
    FROM dependents CROSS JOIN LATERAL unnest(makes) WITH ORDINALITY u(make, nth)
    UNION ALL
    -- Last, the commands that call functions.
    SELECT transaction, 10, nth,
        format('SELECT snowflake_adopt.must_depend_on(%s, %L)', arguments,
            snowflake_adopt.dependencies(class, object)), 'Unchanged.'
    FROM dependents
    UNION ALL
    SELECT transaction, 11, -nth, snowflake_adopt.as_owner(owner, refresh), 'Unchanged.' FROM dependents
        WHERE refresh IS NOT NULL
$$;
COMMENT ON FUNCTION snowflake_adopt.recreates(regclass[], name[], boolean) IS
    'not to be called: the commands that lock, drop and recreate the objects that read columns which become bigint';
