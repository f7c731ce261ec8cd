-- The columns that a plan changes, and what stands in the way of each

CREATE FUNCTION snowflake_adopt.attribute(relation regclass, column_name name) RETURNS pg_attribute
    LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    id pg_attribute;
BEGIN
    SELECT * INTO id FROM pg_attribute
        WHERE attrelid = relation AND attname = column_name AND attnum > 0 AND NOT attisdropped;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_column',
            MESSAGE = format('column "%s" of relation %s does not exist', column_name, relation);
    END IF;
    RETURN id;
END
$$;
COMMENT ON FUNCTION snowflake_adopt.attribute(regclass, name) IS
    'not to be called: a column; an error if it does not exist';

CREATE FUNCTION snowflake_adopt.default_of(relation regclass, column_name name) RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
        SET quote_all_identifiers = off AS $$
    SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
    WHERE adrelid = relation AND attname = column_name
$$;
COMMENT ON FUNCTION snowflake_adopt.default_of(regclass, name) IS
    'not to be called: the default of a column, also how it is generated';

CREATE FUNCTION snowflake_adopt.calls_for_ids(expression pg_node_tree) RETURNS boolean
    LANGUAGE c STABLE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_adopt_issues_ids_wrapper';
COMMENT ON FUNCTION snowflake_adopt.calls_for_ids(pg_node_tree) IS
    'not to be called: whether an expression calls a function of snowflake_pg that issues IDs';

CREATE FUNCTION snowflake_adopt.issues_ids(relation regclass, column_name name) RETURNS boolean
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
        WHERE adrelid = relation AND attname = column_name AND snowflake_adopt.calls_for_ids(adbin))
$$;
COMMENT ON FUNCTION snowflake_adopt.issues_ids(regclass, name) IS
    'not to be called: whether the default of a column issues Snowflake IDs';

-- Those that are not inherited, of tables that are not partitions.
CREATE FUNCTION snowflake_adopt.columns_of(schema regnamespace, OUT relation regclass, OUT column_name name,
    OUT is_key boolean)
    RETURNS SETOF record
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.oid, attname, EXISTS (SELECT FROM pg_constraint WHERE conrelid = c.oid AND contype = 'p'
        AND attnum = ANY (conkey))
    FROM pg_class c JOIN pg_attribute ON attrelid = c.oid AND attnum > 0 AND NOT attisdropped AND attinhcount = 0
    WHERE relnamespace = schema AND relkind IN ('r', 'p') AND NOT relispartition
    ORDER BY c.oid::regclass::text, attname
$$;
COMMENT ON FUNCTION snowflake_adopt.columns_of(regnamespace) IS
    'not to be called: the columns of the tables of a schema, and whether they are in the primary key';

CREATE FUNCTION snowflake_adopt.members(relation regclass) RETURNS SETOF regclass
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE members(member) AS (
        SELECT relation::oid
        UNION
        SELECT inhrelid FROM members JOIN pg_inherits ON inhparent = member)
    SELECT member::regclass FROM members
$$;
COMMENT ON FUNCTION snowflake_adopt.members(regclass) IS
    'not to be called: a table, and its partitions or the tables that inherit from it';

-- Commands name what is in a schema. Whoever owns what they mean could change that of another owner then, and run its
-- code: a superuser, or a member of that role.
CREATE FUNCTION snowflake_adopt.lesser_owner(schema oid, owner oid) RETURNS regrole
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.oid::regrole FROM pg_namespace n JOIN pg_roles s ON s.oid = CASE nspowner WHEN 'pg_database_owner'::regrole
        THEN (SELECT datdba FROM pg_database WHERE datname = current_database()) ELSE nspowner END
    -- mutant: schema-of-others
    WHERE n.oid = schema AND pg_has_role(owner, s.oid, 'USAGE') AND NOT pg_has_role(s.oid, owner, 'MEMBER')
$$;
COMMENT ON FUNCTION snowflake_adopt.lesser_owner(oid, oid) IS
    'not to be called: the owner of a schema, if an owner of something in it has the rights of that role, and not the '
    'other way round; else NULL';

CREATE FUNCTION snowflake_adopt.why_no_schema(relation regclass) RETURNS SETOF text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('%s, who owns %s, has the rights of %s, who owns its schema: give both to one role.',
        relowner::regrole, member, lesser)
    FROM snowflake_adopt.members(relation) member JOIN pg_class c ON c.oid = member
    CROSS JOIN LATERAL snowflake_adopt.lesser_owner(relnamespace, relowner) lesser WHERE lesser IS NOT NULL
$$;
COMMENT ON FUNCTION snowflake_adopt.why_no_schema(regclass) IS
    'not to be called: who could put another table in the place of one, whose code would run as its owner';

CREATE FUNCTION snowflake_adopt.referring(relations regclass[], columns name[], OUT relation regclass,
    OUT column_name name)
    RETURNS SETOF record
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp
    -- In this order: to look for a better one takes longer than all else.
    SET join_collapse_limit = 1 AS $$
    WITH RECURSIVE refers(rel, col) AS (
        SELECT r::oid, c FROM unnest(relations, columns) u(r, c)
        UNION
        SELECT coalesce(pg_partition_root(c.conrelid), c.conrelid), a.attname
        FROM refers r CROSS JOIN LATERAL snowflake_adopt.members(r.rel) member
        JOIN pg_class t ON t.oid = member AND (t.oid = r.rel OR t.relispartition)
        JOIN pg_attribute f ON f.attrelid = t.oid AND f.attname = r.col
        -- pg_constraint has no index for this, and can be large.
        JOIN pg_depend ON classid = 'pg_constraint'::regclass AND refclassid = 'pg_class'::regclass
            AND refobjid = t.oid AND refobjsubid = f.attnum
        JOIN pg_constraint c ON c.oid = objid AND contype = 'f' AND confrelid = t.oid
        CROSS JOIN LATERAL unnest(conkey, confkey) k(referring, referenced)
        JOIN pg_attribute a ON a.attrelid = conrelid AND a.attnum = k.referring
        WHERE k.referenced = f.attnum)
    SELECT rel, col FROM refers
$$;
COMMENT ON FUNCTION snowflake_adopt.referring(regclass[], name[]) IS
    'not to be called: these columns, and the columns that reference them by foreign keys';

CREATE FUNCTION snowflake_adopt.narrow(
    relations regclass[], columns name[], OUT relation regclass, OUT column_name name, OUT domain regtype)
    RETURNS SETOF record
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp AS $$
    SELECT relation, column_name, CASE typtype WHEN 'd' THEN atttypid END
    FROM snowflake_adopt.referring(relations, columns) JOIN pg_attribute ON attrelid = relation
        AND attname = column_name
    JOIN pg_type t ON t.oid = atttypid
    WHERE ARRAY[atttypid, typbasetype] && ARRAY['smallint'::regtype, 'integer'::regtype]::oid[]
    ORDER BY relation::text, column_name
$$;
COMMENT ON FUNCTION snowflake_adopt.narrow(regclass[], name[]) IS
    'not to be called: of these columns and the columns that reference them, those that are narrower than bigint';

CREATE FUNCTION snowflake_adopt.narrow_list(relations regclass[], columns name[]) RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(format('%I of %s', column_name, relation), ', ' ORDER BY relation::text, column_name)
    FROM snowflake_adopt.narrow(relations, columns)
$$;
COMMENT ON FUNCTION snowflake_adopt.narrow_list(regclass[], name[]) IS
    'not to be called: the columns of narrow() as a text; NULL if there are none';

-- Before COMMIT, since others can have added foreign keys.
CREATE FUNCTION snowflake_adopt.must_be_bigint_for_caller(relations regclass[], columns name[]) RETURNS void
    LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    narrow text := snowflake_adopt.narrow_list(relations, columns);
BEGIN
    -- mutant: plan-narrow-columns
    IF narrow IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = 'columns are not bigint yet',
            DETAIL = format('They are %s.', narrow), HINT = 'Make a new plan, and run it.';
    END IF;
    -- Whoever owns the schema of snowflake_pg can have renamed it.
    -- mutant: default-of-others
    IF NOT (SELECT bool_and(snowflake_adopt.issues_ids(relation, col))
        FROM unnest(relations, columns) u(relation, col)) THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'another function has got the name of snowflake_nextval()';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_adopt.must_be_bigint_for_caller(regclass[], name[]) IS
    'not to be called: does what must_be_bigint() is for';
CREATE FUNCTION snowflake_adopt.must_be_bigint(relations regclass[], columns name[]) RETURNS void
    LANGUAGE c STABLE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_adopt_enter';
COMMENT ON FUNCTION snowflake_adopt.must_be_bigint(regclass[], name[]) IS
    'not to be called: for plans, an error unless these columns, and the columns that reference them, are bigint, and '
    'the defaults of these issue IDs';

CREATE FUNCTION snowflake_adopt.why_not_bigint(relation regclass, column_name name) RETURNS SETOF text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp AS $$
    WITH ids AS (
        SELECT member, m.oid, m.reloftype, m.reltype, m.relowner, attnum, attinhcount
        FROM snowflake_adopt.members(relation) member JOIN pg_class m ON m.oid = member
        JOIN pg_attribute ON attrelid = member AND attname = column_name)
    SELECT format('%I of %s cannot become bigint while there is: %s.', column_name, member,
        pg_describe_object(d.classid, d.objid, d.objsubid))
    FROM ids JOIN pg_depend d ON refclassid = 'pg_class'::regclass AND refobjid = ids.oid AND refobjsubid = ids.attnum
    LEFT JOIN pg_attrdef f ON d.classid = 'pg_attrdef'::regclass AND f.oid = d.objid
    LEFT JOIN pg_attribute g ON g.attrelid = f.adrelid AND g.attnum = f.adnum
    LEFT JOIN pg_rewrite w ON d.classid = 'pg_rewrite'::regclass AND w.oid = d.objid
    WHERE g.attgenerated <> '' OR w.rulename <> '_RETURN' OR d.classid = 'pg_publication_rel'::regclass
    UNION
    SELECT format('%I of %s cannot become bigint: it is in the partition key.', column_name, member)
    FROM ids JOIN pg_partitioned_table ON partrelid = ids.oid
    WHERE attnum = ANY (partattrs)
        OR EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = ids.oid
        AND refclassid = 'pg_class'::regclass AND refobjid = ids.oid AND refobjsubid = attnum)
    UNION
    SELECT format('%I of %s cannot become bigint: the table is of type %s.', column_name, member, reloftype::regtype)
    FROM ids WHERE reloftype <> 0
    UNION
    SELECT format('%I of %s cannot become bigint: %s owns it, and %s owns %s.', column_name, relation,
        c.relowner::regrole,
        ids.relowner::regrole, member)
    FROM ids JOIN pg_class c ON c.oid = relation WHERE c.relowner <> ids.relowner
    UNION
    SELECT format('%I of %s cannot become bigint: %I of %s is of its row type.', column_name, member, u.attname,
        u.attrelid::regclass)
    FROM ids JOIN pg_type t ON t.oid = reltype
    JOIN pg_depend d ON refclassid = 'pg_type'::regclass AND refobjid IN (t.oid, t.typarray)
        AND d.classid = 'pg_class'::regclass
    JOIN pg_attribute u ON u.attrelid = d.objid AND u.attnum = d.objsubid AND u.atttypid = refobjid
    JOIN pg_class c ON c.oid = u.attrelid AND c.relkind IN ('r', 'p', 'm')
    UNION
    SELECT format('%I of %s cannot become bigint while there is: %s, which needs the index of a partition.',
        column_name, relation,
        pg_describe_object('pg_constraint'::regclass, k.oid, 0))
    FROM ids JOIN pg_constraint k ON contype = 'f' AND confrelid = ids.oid AND conparentid = 0
        AND attnum = ANY (confkey)
    WHERE EXISTS (SELECT FROM pg_inherits WHERE inhrelid = conindid)
    UNION
    SELECT format('%I of %s cannot become bigint: it is inherited from another table.', column_name, relation)
    FROM ids WHERE ids.oid = relation AND attinhcount > 0
    ORDER BY 1
$$;
COMMENT ON FUNCTION snowflake_adopt.why_not_bigint(regclass, name) IS
    'not to be called: what prevents a narrow column from becoming bigint, except what can be recreated';

CREATE FUNCTION snowflake_adopt.greatest_id(relation regclass, column_name name) RETURNS bigint
    LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on SET quote_all_identifiers = off
    -- Raises an error rather than reading a part of the rows.
    -- mutant: plan-all-rows
    SET row_security = off AS $$
    SELECT snowflake_adopt.read_as_owner(relowner, format('SELECT max(%I)::bigint FROM %s', column_name, relation))
    FROM pg_class WHERE oid = relation
$$;
COMMENT ON FUNCTION snowflake_adopt.greatest_id(regclass, name) IS 'not to be called: the greatest number in a column';

-- Also the sequence that a default calls.
CREATE FUNCTION snowflake_adopt.sequence_of(relation regclass, column_name name) RETURNS regclass
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.oid::regclass
    FROM pg_attribute JOIN pg_depend d ON true
    LEFT JOIN pg_attrdef f ON d.classid = 'pg_attrdef'::regclass AND f.oid = d.objid
    JOIN pg_class s ON s.relkind = 'S' AND s.oid = CASE WHEN f.oid IS NULL THEN d.objid ELSE d.refobjid END
    WHERE attrelid = relation AND attname = column_name AND d.refclassid = 'pg_class'::regclass
        AND (d.classid = 'pg_class'::regclass AND d.refobjid = relation AND d.refobjsubid = attnum
            AND d.deptype IN ('a', 'i')
            OR f.adrelid = relation AND f.adnum = attnum)
    LIMIT 1
$$;
COMMENT ON FUNCTION snowflake_adopt.sequence_of(regclass, name) IS
    'not to be called: the sequence that numbers a column';

-- At once, or each in a transaction of its own. Tables that reference others come before these.
CREATE FUNCTION snowflake_adopt.rewrites(
    relations regclass[], columns name[], at_once boolean,
    OUT transaction integer, OUT nth bigint, OUT relation regclass, OUT narrow name[])
    RETURNS SETOF record
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN at_once THEN 1 ELSE nth END, nth, relation, narrow
    FROM (
        SELECT row_number() OVER (ORDER BY relation = ANY (relations), relation::text) AS nth, relation,
            array_agg(column_name ORDER BY column_name) AS narrow
        FROM snowflake_adopt.narrow(relations, columns) WHERE domain IS NULL GROUP BY relation) rewritten
    ORDER BY rewritten.nth
$$;
COMMENT ON FUNCTION snowflake_adopt.rewrites(regclass[], name[], boolean) IS
    'not to be called: the tables that a plan rewrites, with their columns that become bigint, and the transaction in '
    'which it does so';
