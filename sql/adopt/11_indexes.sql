-- Adopting online: indexes for the second columns, which CREATE INDEX CONCURRENTLY makes

CREATE FUNCTION snowflake_adopt.expression(expression pg_node_tree, relation oid, narrow smallint[], wide smallint[])
    RETURNS text
    LANGUAGE c STABLE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_adopt_expression_wrapper';
COMMENT ON FUNCTION snowflake_adopt.expression(pg_node_tree, oid, smallint[], smallint[]) IS
    'not to be called: the text of an expression about a table, with other columns in the place of these';

-- The attribute numbers of the narrow columns of a table or partition, and of those beside them.
CREATE FUNCTION snowflake_adopt.places(root oid, leaf oid, OUT narrow smallint[], OUT wide smallint[])
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT array_agg(n.attnum ORDER BY n.attnum), array_agg(w.attnum ORDER BY n.attnum) FROM snowflake_adopt.beside b
    JOIN pg_attribute n ON n.attrelid = leaf AND n.attname = b.column_name
    JOIN pg_attribute w ON w.attrelid = leaf AND w.attname = b.beside
    WHERE b.relation = root
$$;
COMMENT ON FUNCTION snowflake_adopt.places(oid, oid) IS
    'not to be called: the attribute numbers of the narrow columns of a table, and of those beside them';

-- The columns of a list of attribute numbers, those beside narrow ones in their place.
CREATE FUNCTION snowflake_adopt.replaced(numbers smallint[], narrow smallint[], wide smallint[]) RETURNS smallint[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT array_agg(coalesce(wide[array_position(narrow, number)], number) ORDER BY nth)
        FROM unnest(numbers) WITH ORDINALITY u(number, nth)
$$;
COMMENT ON FUNCTION snowflake_adopt.replaced(smallint[], smallint[], smallint[]) IS
    'not to be called: attribute numbers, with those of other columns in the place of these';

-- CREATE INDEX CONCURRENTLY runs at the top level, where SET ROLE leads back to whoever adopts, and a literal of a type
-- of the owner's runs its code. The owner can also put another type in the place of one by its name, unless that is in
-- pg_catalog.
CREATE FUNCTION snowflake_adopt.has_type_of_others(index oid) RETURNS boolean
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    -- mutant: index-of-owners-type
    SELECT EXISTS (SELECT FROM pg_type WHERE oid IN (SELECT snowflake_adopt.types_used('pg_class'::regclass, index))
        AND (typowner <> 10 AND snowflake_adopt.is_other(typowner) OR typnamespace <> 'pg_catalog'::regnamespace
            AND snowflake_adopt.is_other((SELECT relowner FROM pg_class c WHERE c.oid = index))))
$$;
COMMENT ON FUNCTION snowflake_adopt.has_type_of_others(oid) IS
    'not to be called: whether an expression of an index uses a type of another role';

-- Indexes that contain narrow columns, and the names of those that take their places.
CREATE FUNCTION snowflake_adopt.indexes(migration regclass, OUT leaf regclass, OUT index regclass, OUT successor name,
    OUT narrow smallint[], OUT wide smallint[])
    RETURNS SETOF record LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    -- First these, since PostgreSQL would ask for the types of each index of the database.
    WITH ours AS MATERIALIZED (
        SELECT l.leaf, x.*, p.narrow, p.wide FROM snowflake_adopt.leaves(indexes.migration) l
        CROSS JOIN LATERAL snowflake_adopt.places(l.root, l.leaf) p JOIN pg_index x ON indrelid = l.leaf AND indisvalid)
    SELECT leaf, indexrelid::regclass, format('snowflake_adopt_%s', indexrelid), narrow, wide FROM ours
    WHERE (indkey::smallint[] && narrow
        OR snowflake_adopt.expression(indpred, indrelid, narrow, wide) <> pg_get_expr(indpred, indrelid))
        AND NOT snowflake_adopt.has_type_of_others(indexrelid)
$$;
COMMENT ON FUNCTION snowflake_adopt.indexes(regclass) IS
    'not to be called: the indexes that contain narrow columns of a migration, and the names of their successors';

-- The columns of an index as CREATE INDEX has them, from the first to the last of these.
CREATE FUNCTION snowflake_adopt.index_columns(index oid, first integer, last integer, narrow smallint[],
    wide smallint[]) RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
        SET quote_all_identifiers = off AS $$
    SELECT string_agg(concat(coalesce(quote_ident(a.attname), pg_get_indexdef(index, nth::integer, false)),
            CASE WHEN nth <= indnkeyatts THEN concat(' COLLATE ' || nullif(indcollation[nth - 1], 0)::regcollation,
                format(' %s.%I', o.opcnamespace::regnamespace, o.opcname),
                (SELECT format(' (%s)', string_agg(format('%I = %L', option_name, option_value), ', '))
                    FROM pg_options_to_table(i.attoptions)
                    HAVING count(*) > 0),
                CASE WHEN pg_indexam_has_property(relam, 'can_order')
                    THEN concat(CASE WHEN indoption[nth - 1] & 1 <> 0 THEN ' DESC' END,
                    CASE WHEN indoption[nth - 1] & 2 <> 0 THEN ' NULLS FIRST' ELSE ' NULLS LAST' END) END) END), ', '
                        ORDER BY nth)
    FROM pg_index JOIN pg_class c ON c.oid = indexrelid
    CROSS JOIN LATERAL unnest(indkey::smallint[],
        snowflake_adopt.replaced(indkey::smallint[], narrow, wide)) WITH ORDINALITY u(old, number, nth)
    JOIN pg_attribute i ON i.attrelid = indexrelid AND i.attnum = nth
    LEFT JOIN pg_attribute a ON a.attrelid = indrelid AND a.attnum = number AND number <> 0
    LEFT JOIN pg_opclass was ON was.oid = indclass[nth - 1]
    LEFT JOIN pg_opclass o ON o.opcfamily = was.opcfamily
        AND CASE WHEN old = number THEN o.oid = was.oid ELSE o.opcintype = a.atttypid
            AND o.opcname = replace(replace(was.opcname, 'int4', 'int8'), 'int2', 'int8') END
    WHERE indexrelid = index AND nth BETWEEN first AND last
$$;
COMMENT ON FUNCTION snowflake_adopt.index_columns(oid, integer, integer, smallint[], smallint[]) IS
    'not to be called: the columns of an index, as CREATE INDEX names them, with others in the place of these';

CREATE FUNCTION snowflake_adopt.index_definition(index oid, successor name, narrow smallint[], wide smallint[])
    RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
        SET quote_all_identifiers = off AS $$
    SELECT concat('CREATE ', CASE WHEN indisunique THEN 'UNIQUE ' END, 'INDEX CONCURRENTLY ', quote_ident(successor),
        ' ON ', indrelid::regclass,
        ' USING ', quote_ident(amname), ' (', snowflake_adopt.index_columns(index, 1, indnkeyatts, narrow, wide), ')',
        ' INCLUDE (' || snowflake_adopt.index_columns(index, indnkeyatts + 1, indnatts, narrow, wide) || ')',
        CASE WHEN indnullsnotdistinct THEN ' NULLS NOT DISTINCT' END,
        ' WITH (' || (SELECT string_agg(format('%I = %L', option_name, option_value), ', ')
            FROM pg_options_to_table(c.reloptions)) || ')',
        ' TABLESPACE ' || quote_ident(spcname),
        ' WHERE ' || snowflake_adopt.expression(indpred, indrelid, narrow, wide))
    FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam
        LEFT JOIN pg_tablespace t ON t.oid = reltablespace
    WHERE indexrelid = index
$$;
COMMENT ON FUNCTION snowflake_adopt.index_definition(oid, name, smallint[], smallint[]) IS
    'not to be called: the command that creates the successor of an index';

-- The columns of a table that an index reads, also in an expression or its predicate.
CREATE FUNCTION snowflake_adopt.columns_read(index oid, relation oid) RETURNS smallint[]
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT array_agg(DISTINCT number) FROM (
        SELECT unnest(indkey::smallint[]) AS number FROM pg_index WHERE indexrelid = index
        UNION ALL
        SELECT refobjsubid::smallint FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = index
            AND refclassid = 'pg_class'::regclass AND refobjid = relation) columns
    WHERE number <> 0
$$;
COMMENT ON FUNCTION snowflake_adopt.columns_read(oid, oid) IS
    'not to be called: the columns of a table which an index reads';

-- Anybody who may create an index of the table can give it the name of a successor. Texts of expressions are not
-- compared, since they are others after the types have changed.
CREATE FUNCTION snowflake_adopt.is_successor(index oid, successor oid, narrow smallint[], wide smallint[])
    RETURNS boolean
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    -- mutant: index-on-other-columns
    SELECT (o.indisunique, o.indnullsnotdistinct, o.indnkeyatts,
        snowflake_adopt.replaced(o.indkey::smallint[], narrow, wide), o.indcollation::text,
            o.indoption::text, o.indexprs IS NULL, o.indpred IS NULL,
            ARRAY(SELECT opcfamily FROM unnest(o.indclass::oid[]) WITH ORDINALITY c(class, nth)
                JOIN pg_opclass p ON p.oid = class ORDER BY nth), oc.relam,
            ARRAY(SELECT number FROM unnest(snowflake_adopt.replaced(snowflake_adopt.columns_read(index, o.indrelid),
                narrow, wide)) number ORDER BY 1))
        = (s.indisunique, s.indnullsnotdistinct, s.indnkeyatts,
            snowflake_adopt.replaced(s.indkey::smallint[], '{}', '{}'), s.indcollation::text,
            s.indoption::text, s.indexprs IS NULL, s.indpred IS NULL,
            ARRAY(SELECT opcfamily FROM unnest(s.indclass::oid[]) WITH ORDINALITY c(class, nth)
                JOIN pg_opclass p ON p.oid = class ORDER BY nth), sc.relam,
            ARRAY(SELECT number FROM unnest(snowflake_adopt.columns_read(successor, s.indrelid)) number ORDER BY 1))
    FROM pg_index o JOIN pg_class oc ON oc.oid = o.indexrelid
        CROSS JOIN (pg_index s JOIN pg_class sc ON sc.oid = s.indexrelid)
    WHERE o.indexrelid = index AND s.indexrelid = successor
$$;
COMMENT ON FUNCTION snowflake_adopt.is_successor(oid, oid, smallint[], smallint[]) IS
    'not to be called: whether an index is as another one, with wide columns in the place of the narrow ones';

-- An index that was interrupted is dropped first. Unique ones come last: beside a second one, a concurrent INSERT ...
-- ON CONFLICT can fail.
CREATE FUNCTION snowflake_adopt.indexes_to_do(migration regclass, OUT command text, OUT owner oid) RETURNS SETOF record
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT i.command, i.owner FROM (
    SELECT CASE WHEN s.oid IS NOT NULL THEN format('DROP INDEX CONCURRENTLY %s', s.oid::regclass)
            ELSE snowflake_adopt.index_definition(i.index, i.successor, i.narrow, i.wide) END, o.relowner,
                u.indisunique, o.oid
    FROM snowflake_adopt.indexes(indexes_to_do.migration) i JOIN pg_class o ON o.oid = i.index
    JOIN pg_index u ON u.indexrelid = i.index LEFT JOIN (pg_class s JOIN pg_index x ON x.indexrelid = s.oid)
        ON s.relnamespace = o.relnamespace AND s.relname = i.successor AND x.indrelid = i.leaf
            AND snowflake_adopt.is_successor(i.index, s.oid, i.narrow, i.wide)
    WHERE x.indisvalid IS NOT TRUE
    UNION ALL
    -- A foreign key can need it: ours is dropped before, and what others have made is theirs.
    SELECT format('DROP INDEX CONCURRENTLY %s', s.oid::regclass), s.relowner, true, s.oid
    FROM snowflake_adopt.leaves(indexes_to_do.migration) l CROSS JOIN LATERAL snowflake_adopt.places(l.root, l.leaf) p
    JOIN pg_index x ON indrelid = l.leaf JOIN pg_class s ON s.oid = indexrelid
        AND snowflake_adopt.succeeds(relname) IS NOT NULL
    WHERE NOT EXISTS (SELECT FROM pg_class o WHERE o.oid = snowflake_adopt.succeeds(s.relname))
        AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = s.oid)
        AND snowflake_adopt.columns_read(indexrelid, indrelid) && p.wide) i(command, owner, is_last, nth)
    ORDER BY is_last, nth
$$;
COMMENT ON FUNCTION snowflake_adopt.indexes_to_do(regclass) IS
    'not to be called: the commands that create the indexes of a migration which are missing, and drop those whose '
    'originals are';

-- Without statistics of the new columns, plans would be bad from the swap to the next autoanalyze.
CREATE FUNCTION snowflake_adopt.statistics_to_do(migration regclass) RETURNS SETOF text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('SELECT snowflake_adopt.analyze(%s)', b.relation::oid) FROM snowflake_adopt.beside b
    WHERE b.migration = statistics_to_do.migration AND NOT is_analyzed GROUP BY b.relation
$$;
COMMENT ON FUNCTION snowflake_adopt.statistics_to_do(regclass) IS
    'not to be called: the commands that analyze the columns of a migration which have no statistics';

-- Once: ANALYZE writes no statistics of a table without rows.
CREATE FUNCTION snowflake_adopt.analyze(table_oid oid) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM snowflake_adopt.do_as((SELECT relowner FROM pg_class WHERE oid = table_oid),
        (SELECT format('ANALYZE %s (%s)', table_oid::regclass, string_agg(quote_ident(beside), ', '))
            FROM snowflake_adopt.beside WHERE relation = table_oid));
    UPDATE snowflake_adopt.beside SET is_analyzed = true WHERE relation = table_oid;
END
$$;
COMMENT ON FUNCTION snowflake_adopt.analyze(oid) IS
    'not to be called: analyzes the second columns of a table';
