-- Adopting online: what stands in the way, beside what stands in the way of a plan

CREATE FUNCTION snowflake_adopt.beside(column_name name) RETURNS name
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT ('snowflake_adopt_' || column_name)::name
$$;
COMMENT ON FUNCTION snowflake_adopt.beside(name) IS
    'not to be called: the name of the column beside a narrow one';

-- Of a table, whose columns get others beside them.
CREATE FUNCTION snowflake_adopt.why_no_column(relation regclass, columns name[]) RETURNS SETOF text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    WITH members AS (
        SELECT m.*, member FROM snowflake_adopt.members(relation) member JOIN pg_class m ON m.oid = member),
    ids AS (
        SELECT member, a.attrelid, a.attnum, a.attname, a.attidentity FROM members
            JOIN pg_attribute a ON attrelid = member::oid AND attname = ANY (columns)),
    indexes AS MATERIALIZED (
        SELECT DISTINCT indexrelid FROM ids JOIN pg_index ON indrelid = attrelid)
    SELECT format('%s is temporary.', member) FROM members WHERE relpersistence = 't'
    UNION ALL
    SELECT format('%s is a foreign table.', member) FROM members WHERE relkind = 'f'
    UNION ALL
    SELECT format('Other tables inherit from %s.', relation) FROM pg_class c WHERE c.oid = relation AND relkind = 'r'
        AND (SELECT count(*) FROM members) > 1
    UNION ALL
    SELECT format('You do not have the rights of %s, who owns %s.', relowner::regrole, member) FROM members
        WHERE NOT (pg_has_role(snowflake_adopt.caller(), relowner, 'USAGE') AND snowflake_adopt.may_become(relowner))
    UNION ALL
    SELECT format('%s has FORCE ROW LEVEL SECURITY, which hides rows from its owner.', member) FROM members m
        JOIN pg_roles r ON r.oid = relowner
        WHERE relrowsecurity AND relforcerowsecurity AND NOT rolbypassrls AND NOT rolsuper
    UNION ALL
    SELECT format('%s of %s runs after the trigger that copies %s: rename it.', quote_ident(tgname), member,
        array_to_string(columns, ', ')) FROM members
        JOIN pg_trigger ON tgrelid = member::oid WHERE NOT tgisinternal AND tgtype & 3 = 3
            AND tgname >= '~snowflake_adopt' COLLATE "C"
            AND tgfoid <> 'snowflake_adopt.copy_columns'::regproc
    UNION ALL
    SELECT format('%s of %s is deferrable.', quote_ident(conname), member) FROM ids
        JOIN pg_constraint ON conrelid = attrelid AND attnum = ANY (conkey)
        WHERE contype IN ('p', 'u') AND condeferrable
    UNION ALL
    SELECT format('%s of %s is an exclusion constraint.', quote_ident(conname), member) FROM ids
        JOIN pg_constraint ON conrelid = attrelid AND attnum = ANY (conkey)
        WHERE contype = 'x'
    UNION ALL
    SELECT DISTINCT format('%s computes an expression from %I of %s.', indexrelid::regclass, attname, member) FROM ids
        JOIN pg_index ON indrelid = attrelid AND indexprs IS NOT NULL
        WHERE snowflake_adopt.expression(indexprs, indrelid, ARRAY[attnum], ARRAY[(attnum + 1)::smallint])
            <> snowflake_adopt.expression(indexprs, indrelid, '{}', '{}')
    UNION ALL
    SELECT DISTINCT format('%s is a %s index of %I: drop it until the end.', indexrelid::regclass, amname, attname)
        FROM ids
        JOIN pg_index ON indrelid = attrelid AND attnum = ANY (indkey::smallint[]) JOIN pg_class i ON i.oid = indexrelid
        JOIN pg_am am ON am.oid = i.relam WHERE amname NOT IN ('btree', 'hash', 'brin')
    UNION ALL
    SELECT format('%s uses a type of another role: drop it until the end.', indexrelid::regclass) FROM indexes
        WHERE snowflake_adopt.has_type_of_others(indexrelid)
    UNION ALL
    SELECT * FROM snowflake_adopt.why_overloaded(relation, columns)
    UNION ALL
    -- They would go with the grant option that allows them. After a swap, the owner would have granted them.
    SELECT DISTINCT format('%I of %s has privileges that %s has granted: revoke them until the end.', i.attname,
        member, grantor::regrole) FROM ids i
        JOIN pg_attribute a ON a.attrelid = i.attrelid AND a.attnum = i.attnum JOIN pg_class c ON c.oid = i.attrelid
        CROSS JOIN LATERAL aclexplode(a.attacl) WHERE grantor <> relowner
    UNION ALL
    SELECT DISTINCT format('%I of %s has a security label, which would be lost.', attname, member) FROM ids
        JOIN pg_seclabel ON classoid = 'pg_class'::regclass AND objoid = attrelid AND objsubid = attnum
    UNION ALL
    SELECT format('%I of %s is an identity, and references another table.', attname, member) FROM ids
        WHERE attidentity <> ''
        AND EXISTS (SELECT FROM pg_constraint WHERE contype = 'f' AND conrelid = attrelid AND attnum = ANY (conkey))
$$;
COMMENT ON FUNCTION snowflake_adopt.why_no_column(regclass, name[]) IS
    'not to be called: why a table cannot have columns beside these';

CREATE FUNCTION snowflake_adopt.why_no_names(relation regclass, columns name[]) RETURNS SETOF text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('%s has a column %I.', relation, attname) FROM unnest(columns) col
    JOIN pg_attribute ON attrelid = relation AND attname = snowflake_adopt.beside(col)
    UNION ALL
    SELECT DISTINCT format('%s has a constraint %I.', k.conrelid::regclass, k.conname) FROM pg_constraint c
    JOIN pg_constraint k ON k.conrelid = c.conrelid
        AND k.conname IN ('snowflake_adopt_equal', format('snowflake_adopt_%s', c.oid))
    WHERE relation IN (c.conrelid, c.confrelid)
        AND NOT EXISTS (SELECT FROM snowflake_adopt.made WHERE constraint_oid = k.oid)
    UNION ALL
    SELECT format('%s has a trigger %I.', member, tgname) FROM snowflake_adopt.members(relation) member
        JOIN pg_trigger ON tgrelid = member
    WHERE tgname = '~snowflake_adopt' AND tgfoid <> 'snowflake_adopt.copy_columns'::regproc
    UNION ALL
    SELECT format('%s has the name of an index to be made: rename it.', s.oid::regclass)
        FROM snowflake_adopt.members(relation) member
    JOIN pg_index ON indrelid = member JOIN pg_class i ON i.oid = indexrelid
    JOIN pg_class s ON s.relnamespace = i.relnamespace AND s.relname = format('snowflake_adopt_%s', indexrelid)
    WHERE NOT EXISTS (SELECT FROM snowflake_adopt.beside b WHERE b.relation = why_no_names.relation)
$$;
COMMENT ON FUNCTION snowflake_adopt.why_no_names(regclass, name[]) IS
    'not to be called: what a table has that a migration would make';

-- What partitions have of their own, which would go with their columns.
CREATE FUNCTION snowflake_adopt.why_no_partition(relation regclass, columns name[]) RETURNS SETOF text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
        SET quote_all_identifiers = off AS $$
    WITH ids AS (
        SELECT member, a.*, a.attnum AS number, pg_get_expr(adbin, adrelid) AS expression
        FROM snowflake_adopt.members(relation) member JOIN pg_attribute a ON attrelid = member::oid
            AND attname = ANY (columns)
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum WHERE member <> relation),
    own AS (
        SELECT member, pg_describe_object('pg_constraint'::regclass, k.oid, 0) AS what FROM ids
            JOIN pg_constraint k ON conrelid = attrelid AND number = ANY (conkey)
        WHERE contype IN ('c', 'f') AND conparentid = 0 AND coninhcount = 0
        UNION
        SELECT member, pg_describe_object('pg_class'::regclass, indexrelid, 0) FROM ids
            JOIN pg_index ON indrelid = attrelid AND number = ANY (indkey::smallint[])
        JOIN pg_class x ON x.oid = indexrelid WHERE relkind = 'I' AND NOT relispartition
        UNION
        SELECT member, pg_describe_object(classid, objid, 0) FROM ids
            JOIN pg_depend ON refclassid = 'pg_class'::regclass AND refobjid = attrelid
            AND refobjsubid = number AND classid = 'pg_statistic_ext'::regclass
        UNION
        SELECT member, format('default, comment, privileges or statistics target of %I', attname) FROM ids
        WHERE expression IS DISTINCT FROM snowflake_adopt.default_of(relation, attname) OR attacl IS NOT NULL
            OR attstattarget >= 0
            OR col_description(attrelid, number) IS NOT NULL)
    SELECT format('%s has its own %s: drop it until the end.', member, what) FROM own
$$;
COMMENT ON FUNCTION snowflake_adopt.why_no_partition(regclass, name[]) IS
    'not to be called: what partitions have that would be lost with these columns';

-- Of foreign keys.
CREATE FUNCTION snowflake_adopt.why_no_foreign_key(relation regclass, columns name[]) RETURNS SETOF text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('%s of %s references a partitioned table.', quote_ident(conname), conrelid::regclass)
    FROM pg_constraint JOIN pg_class t ON t.oid = confrelid JOIN pg_attribute a ON attrelid = confrelid
        AND attnum = ANY (confkey)
    WHERE contype = 'f' AND conparentid = 0 AND confrelid = relation AND attname = ANY (columns) AND t.relkind = 'p'
    UNION ALL
    SELECT format('%s of %s is a foreign key of a partitioned table, which PostgreSQL %s checks at once.',
        quote_ident(conname), conrelid::regclass,
        current_setting('server_version_num')::integer / 10000)
    FROM pg_constraint JOIN pg_class t ON t.oid = conrelid JOIN pg_attribute a ON attrelid = conrelid
        AND attnum = ANY (conkey)
    WHERE contype = 'f' AND conparentid = 0 AND conrelid = relation AND attname = ANY (columns) AND t.relkind = 'p'
        AND current_setting('server_version_num')::integer < 180000
    UNION ALL
    -- Its action and that of the second column's would contradict each other.
    SELECT format('%s of %s has the action SET DEFAULT.', quote_ident(conname), conrelid::regclass)
    FROM pg_constraint JOIN pg_attribute a ON attrelid = conrelid AND attnum = ANY (conkey)
    WHERE contype = 'f' AND conparentid = 0 AND conrelid = relation AND attname = ANY (columns)
        AND 'd' IN (confdeltype, confupdtype)
$$;
COMMENT ON FUNCTION snowflake_adopt.why_no_foreign_key(regclass, name[]) IS
    'not to be called: which foreign keys of these columns stand in the way of a migration';

-- What a migration does to a table, it does as the table's owner, who may have lost the rights to make such a table.
CREATE FUNCTION snowflake_adopt.why_no_rights(relation regclass, columns name[]) RETURNS SETOF text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
        SET quote_all_identifiers = off AS $$
    WITH members AS (
        SELECT m.* FROM snowflake_adopt.members(relation) member JOIN pg_class m ON m.oid = member),
    keys AS (
        SELECT conrelid::regclass AS referring, confrelid::regclass AS referenced, t.relowner, d.relnamespace
        FROM pg_constraint JOIN pg_class t ON t.oid = conrelid JOIN pg_class d ON d.oid = confrelid WHERE contype = 'f'
            AND conparentid = 0
            AND EXISTS (SELECT FROM pg_attribute WHERE attrelid = relation AND attname = ANY (columns)
                AND (conrelid = attrelid AND attnum = ANY (conkey) OR confrelid = attrelid AND attnum = ANY (confkey))))
    SELECT format('%s, who owns %s, cannot create in its schema: GRANT CREATE, USAGE ON SCHEMA %s TO %1$s.',
        relowner::regrole, relation, relnamespace::regnamespace)
    FROM members WHERE NOT (has_schema_privilege(relowner, relnamespace, 'CREATE')
        AND has_schema_privilege(relowner, relnamespace, 'USAGE'))
    UNION
    SELECT format('%s, who owns %s, cannot create in the tablespace of an index: GRANT CREATE ON TABLESPACE %I TO '
        '%1$s.', m.relowner::regrole, relation, spcname)
    FROM members m JOIN pg_index ON indrelid = m.oid JOIN pg_class i ON i.oid = indexrelid
        JOIN pg_tablespace t ON t.oid = i.reltablespace
    WHERE NOT has_tablespace_privilege(m.relowner, t.oid, 'CREATE')
    UNION
    SELECT format('You do not have the rights of %s, who owns %s.', relowner::regrole, referring) FROM keys
        WHERE NOT snowflake_adopt.may_become(relowner)
    UNION
    SELECT format('%s, who owns %s, cannot reference %s: GRANT REFERENCES ON %3$s TO %1$s.', relowner::regrole,
        referring, referenced)
    FROM keys WHERE NOT has_table_privilege(relowner, referenced, 'REFERENCES')
    UNION
    SELECT format('%s, who owns %s, cannot reference %s: GRANT USAGE ON SCHEMA %s TO %1$s.', relowner::regrole,
        referring, referenced, relnamespace::regnamespace)
    FROM keys WHERE NOT has_schema_privilege(relowner, relnamespace, 'USAGE')
$$;
COMMENT ON FUNCTION snowflake_adopt.why_no_rights(regclass, name[]) IS
    'not to be called: which rights the owner of a table needs for a migration of these columns, and does not have';

-- NULL for a narrow column, which has room for no Snowflake ID. Its greatest number need not be looked for, which takes
-- long without an index of its own.
CREATE FUNCTION snowflake_adopt.greatest_wide_id(relation regclass, column_name name) RETURNS bigint
    LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN atttypid NOT IN ('smallint'::regtype, 'integer'::regtype)
        THEN snowflake_adopt.greatest_id(relation, column_name) END
    FROM pg_attribute WHERE attrelid = relation AND attname = column_name
$$;
COMMENT ON FUNCTION snowflake_adopt.greatest_wide_id(regclass, name) IS
    'not to be called: the greatest number in a column that is not narrow';

-- Also asked before the swap: DROP COLUMN would drop what was made since the start and cannot be made again.
CREATE FUNCTION snowflake_adopt.why_not_swapped(relation regclass, column_name name, greatest_id bigint)
    RETURNS SETOF text
    LANGUAGE sql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    WITH narrow AS (
        SELECT n.relation, array_agg(n.column_name) AS columns
            FROM snowflake_adopt.narrow(ARRAY[relation], ARRAY[column_name]) n GROUP BY 1)
    SELECT * FROM snowflake_adopt.obstacles(ARRAY[relation], ARRAY[column_name], true, ARRAY[greatest_id])
    UNION
    SELECT why FROM narrow n CROSS JOIN LATERAL snowflake_adopt.why_no_column(n.relation, columns) why
    UNION
    SELECT why FROM narrow n CROSS JOIN LATERAL snowflake_adopt.why_no_partition(n.relation, columns) why
    UNION
    SELECT why FROM narrow n CROSS JOIN LATERAL snowflake_adopt.why_no_foreign_key(n.relation, columns) why
    UNION
    SELECT format('%s would be filled again while nobody can read or write the tables: drop it until the end.',
        pg_describe_object(class, object, 0))
    FROM snowflake_adopt.dependents(ARRAY[relation], ARRAY[column_name], true)
        JOIN pg_class c ON class = 'pg_class'::regclass AND c.oid = object
    WHERE relkind = 'm'
$$;
COMMENT ON FUNCTION snowflake_adopt.why_not_swapped(regclass, name, bigint) IS
    'not to be called: what stands in the way of a swap; the greatest ID is that of the column, or NULL if it is '
    'narrow';

CREATE FUNCTION snowflake_adopt.why_published(relation regclass, columns name[], published boolean) RETURNS SETOF text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
        SET quote_all_identifiers = off AS $$
    WITH members AS (
        SELECT member, p.* , c.relkind, relreplident FROM snowflake_adopt.members(relation) member
            JOIN pg_class c ON c.oid = member
        JOIN pg_publication_tables t ON schemaname = relnamespace::regnamespace::name AND tablename = relname
        JOIN pg_publication p ON p.pubname = t.pubname)
    SELECT format('%s is published by %s, whose subscribers need %s as bigint and the columns %s first. Then say '
        'published => true.', relation,
        string_agg(DISTINCT quote_ident(pubname), ', '), array_to_string(columns, ', '),
        (SELECT string_agg(format('%I bigint', snowflake_adopt.beside(col)), ', ') FROM unnest(columns) col))
    FROM members WHERE NOT published HAVING count(*) > 0
    UNION ALL
    SELECT DISTINCT format('%s is published, but its rows cannot be updated without a replica identity.', member)
        FROM members
    WHERE relkind = 'r' AND pubupdate AND (relreplident = 'n'
        OR relreplident = 'd' AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = member::oid AND indisprimary))
$$;
COMMENT ON FUNCTION snowflake_adopt.why_published(regclass, name[], boolean) IS
    'not to be called: why a published table cannot have columns beside these';

-- Before all is copied: a function of integer may not take a bigint. Only looked up: the planner would call it with
-- constants, so OFFSET hides them. As the owner, since a constant of a type can call code.
CREATE FUNCTION snowflake_adopt.why_no_expression(relation regclass, columns name[]) RETURNS SETOF text
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
        SET quote_all_identifiers = off AS $$
DECLARE
    expression record;
    wide text := (SELECT string_agg(format('NULL::%s AS %I',
        CASE WHEN attname = ANY (columns) THEN 'bigint' ELSE format_type(atttypid, atttypmod) END, attname), ', ')
        FROM pg_attribute WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped);
BEGIN
    FOR expression IN
        SELECT pg_describe_object('pg_constraint'::regclass, c.oid, 0) AS what, pg_get_expr(conbin, conrelid) AS text,
            relowner, relname
        FROM pg_constraint c JOIN pg_class t ON t.oid = conrelid WHERE conrelid = relation AND contype = 'c'
            AND EXISTS (SELECT FROM pg_attribute WHERE attrelid = conrelid AND attnum = ANY (conkey)
                AND attname = ANY (columns))
        UNION ALL
        SELECT pg_describe_object('pg_class'::regclass, indexrelid, 0), pg_get_expr(indpred, indrelid), relowner,
            relname
        FROM snowflake_adopt.members(relation) member JOIN pg_index ON indrelid = member::oid AND indpred IS NOT NULL
            JOIN pg_class t ON t.oid = indrelid
    LOOP
        -- why_no_column() tells of this one.
        CONTINUE WHEN NOT snowflake_adopt.may_become(expression.relowner);
        BEGIN
            -- In whose place nothing of another role runs, either.
            PERFORM snowflake_adopt.read_as_owner(expression.relowner,
                format('SELECT snowflake_adopt.run_calling_only(%L, %L, %L, %L)', expression.relowner::regrole,
                ARRAY[relation]::oid[], snowflake_adopt.owners_called(ARRAY[relation])::regrole[],
                format('SELECT 0::bigint FROM (SELECT %s OFFSET 0) %I WHERE %s LIMIT 0', wide, expression.relname,
                    expression.text)));
        EXCEPTION WHEN undefined_function OR ambiguous_function OR datatype_mismatch OR cannot_coerce THEN
            RETURN NEXT format('%s does not work with bigint: %s.', expression.what, SQLERRM);
        END;
    END LOOP;
END
$$;
COMMENT ON FUNCTION snowflake_adopt.why_no_expression(regclass, name[]) IS
    'not to be called: which CHECK constraints and predicates of indexes do not work if these columns are bigint';

-- A row that is copied is updated, and must then satisfy all constraints. Reads a table only if it has one that is not
-- valid.
CREATE FUNCTION snowflake_adopt.why_no_update(relation regclass, columns name[]) RETURNS SETOF text
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
        SET quote_all_identifiers = off AS $$
DECLARE
    k record;
    copied text := (SELECT string_agg(quote_ident(col), ', ') FROM unnest(columns) col);
BEGIN
    FOR k IN
        SELECT c.oid, conrelid, relowner,
            CASE contype WHEN 'c' THEN format('(%s) IS FALSE', pg_get_expr(conbin, conrelid))
            ELSE format('%I IS NULL',
                (SELECT attname FROM pg_attribute WHERE attrelid = conrelid AND attnum = conkey[1])) END AS is_violated
        FROM snowflake_adopt.members(relation) member JOIN pg_constraint c ON conrelid = member::oid
            JOIN pg_class t ON t.oid = conrelid
        WHERE contype IN ('c', 'n') AND NOT convalidated AND coninhcount = 0 AND snowflake_adopt.is_enforced(c)
    LOOP
        -- why_no_column() tells of this one.
        CONTINUE WHEN NOT snowflake_adopt.may_become(k.relowner);
        IF snowflake_adopt.read_as_owner(k.relowner,
            format('SELECT count(*) FROM (SELECT FROM %s WHERE num_nonnulls(%s) > 0 AND %s LIMIT 1) violating',
            k.conrelid::regclass, copied, k.is_violated)) > 0
        THEN
            RETURN NEXT format('A row violates %s, which is NOT VALID.',
                pg_describe_object('pg_constraint'::regclass, k.oid, 0));
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION snowflake_adopt.why_no_update(regclass, name[]) IS
    'not to be called: which constraints would refuse the update of a row';

CREATE FUNCTION snowflake_adopt.why_not_online(relation regclass, column_name name, published boolean)
    RETURNS SETOF text
    LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    WITH narrow AS (
        SELECT n.relation, array_agg(n.column_name) AS columns
            FROM snowflake_adopt.narrow(ARRAY[relation], ARRAY[column_name]) n GROUP BY 1)
    SELECT * FROM snowflake_adopt.why_not_swapped(relation, column_name,
        snowflake_adopt.greatest_wide_id(relation, column_name))
    UNION
    SELECT why FROM narrow n CROSS JOIN LATERAL snowflake_adopt.why_no_names(n.relation, columns) why
    UNION
    SELECT format('%s owns %s, and %s owns %s: give both to one role.', c.relowner::regrole, relation,
        p.relowner::regrole, member)
    FROM pg_class c CROSS JOIN LATERAL snowflake_adopt.members(relation) member JOIN pg_class p ON p.oid = member
    -- why_not_bigint() tells of the others.
    WHERE c.oid = relation AND p.relowner <> c.relowner AND NOT EXISTS (SELECT FROM narrow n WHERE n.relation = c.oid)
    UNION
    SELECT why FROM narrow n CROSS JOIN LATERAL snowflake_adopt.why_no_rights(n.relation, columns) why
    UNION
    SELECT format('%s, who owns %s, cannot call snowflake_nextval(): GRANT USAGE ON SCHEMA %s TO %1$s.',
        relowner::regrole, relation, snowflake_adopt.ids())
    FROM pg_class c WHERE c.oid = relation
        AND NOT has_schema_privilege(relowner, (SELECT extnamespace FROM pg_extension WHERE extname = 'snowflake_pg'),
            'USAGE')
    UNION
    SELECT why FROM narrow n CROSS JOIN LATERAL snowflake_adopt.why_published(n.relation, columns, published) why
    UNION
    SELECT why FROM narrow n CROSS JOIN LATERAL snowflake_adopt.why_no_expression(n.relation, columns) why
    UNION
    SELECT why FROM narrow n CROSS JOIN LATERAL snowflake_adopt.why_no_update(n.relation, columns) why
    UNION
    SELECT format('Publication %I is FOR ALL TABLES: its subscribers need the extension snowflake_adopt first. Then '
        'say published => true.', pubname)
    FROM pg_publication WHERE puballtables AND NOT published
    UNION
    SELECT format('%s has columns whose names begin with the same 47 bytes: %s.', n.relation,
        string_agg(quote_ident(col), ', '))
    FROM narrow n CROSS JOIN LATERAL unnest(columns) col GROUP BY n.relation, snowflake_adopt.beside(col)
        HAVING count(*) > 1
    UNION
    SELECT format('The background worker would connect as %I, who has no LOGIN or CONNECT: call it as a member of that '
        'role.', rolname)
    FROM pg_roles WHERE oid = snowflake_adopt.caller()
        AND NOT (rolcanlogin AND has_database_privilege(oid, current_database(), 'CONNECT'))
    UNION
    SELECT format('A migration of %s already has %s.', b.migration, b.relation) FROM narrow n
        JOIN snowflake_adopt.beside b ON b.relation = n.relation
$$;
COMMENT ON FUNCTION snowflake_adopt.why_not_online(regclass, name, boolean) IS
    'not to be called: what stands in the way of a migration';
