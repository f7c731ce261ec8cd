-- Adopting online: constraints of the second columns, first NOT VALID, so that no lock is held while rows are read

-- As in pg_constraint, with the columns of this table.
CREATE FUNCTION snowflake_adopt.column_list(relation oid, numbers smallint[]) RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(quote_ident(attname), ', ' ORDER BY nth) FROM unnest(numbers) WITH ORDINALITY u(number, nth)
    JOIN pg_attribute ON attrelid = relation AND attnum = number
$$;
COMMENT ON FUNCTION snowflake_adopt.column_list(oid, smallint[]) IS
    'not to be called: the names of columns by their attribute numbers';

CREATE FUNCTION snowflake_adopt.action(letter "char") RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE letter WHEN 'r' THEN 'RESTRICT' WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL'
        WHEN 'd' THEN 'SET DEFAULT' ELSE 'NO ACTION' END
$$;
COMMENT ON FUNCTION snowflake_adopt.action("char") IS
    'not to be called: an action of a foreign key, as commands name it';

-- From PostgreSQL 18 on, a column can be NOT NULL except in older rows, and a constraint need not be enforced. Older
-- ones do not have the column.
CREATE FUNCTION snowflake_adopt.not_null_of(relation oid, number smallint, OUT oid oid, OUT is_valid boolean,
    OUT suffix text)
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT k.oid, attnotnull AND k.convalidated IS NOT FALSE,
        concat(CASE WHEN connoinherit THEN ' NO INHERIT' END, CASE WHEN NOT convalidated THEN ' NOT VALID' END)
    FROM pg_attribute a LEFT JOIN pg_constraint k ON conrelid = attrelid AND contype = 'n' AND conkey = ARRAY[attnum]
    WHERE attrelid = relation AND attnum = number
$$;
COMMENT ON FUNCTION snowflake_adopt.not_null_of(oid, smallint) IS
    'not to be called: the NOT NULL constraint of a column, whether no row can be NULL, and what comes last in its '
    'definition';

CREATE FUNCTION snowflake_adopt.is_enforced(k pg_constraint) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((to_jsonb(k) ->> 'conenforced')::boolean, true)
$$;
COMMENT ON FUNCTION snowflake_adopt.is_enforced(pg_constraint) IS
    'not to be called: whether a constraint is enforced, as all are before PostgreSQL 18';

-- The second columns are equal to the first ones, and not NULL if those are not.
CREATE FUNCTION snowflake_adopt.equality(migration regclass, OUT relation regclass, OUT name name, OUT definition text)
    RETURNS SETOF record
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT b.relation, 'snowflake_adopt_equal', format('CHECK (%s)', string_agg(CASE WHEN is_valid
            THEN format('%1$I IS NOT NULL AND %1$I = %2$I', beside, column_name)
            ELSE format('%I IS NOT DISTINCT FROM %I', beside, column_name) END, ' AND ' ORDER BY beside))
    FROM snowflake_adopt.beside b JOIN pg_attribute ON attrelid = b.relation AND attname = column_name
    CROSS JOIN LATERAL snowflake_adopt.not_null_of(attrelid, attnum)
    WHERE b.migration = equality.migration GROUP BY b.relation
$$;
COMMENT ON FUNCTION snowflake_adopt.equality(regclass) IS
    'not to be called: the constraints by which the second columns are equal to the first';

-- The CHECK constraints of narrow columns, for the second ones.
CREATE FUNCTION snowflake_adopt.checks(migration regclass, OUT relation regclass, OUT old oid, OUT name name,
    OUT definition text) RETURNS SETOF record
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT DISTINCT b.relation, c.oid, format('snowflake_adopt_%s', c.oid), format('CHECK (%s)%s%s',
        snowflake_adopt.expression(conbin, conrelid, p.narrow, p.wide), CASE WHEN connoinherit THEN ' NO INHERIT' END,
        CASE WHEN NOT snowflake_adopt.is_enforced(c) THEN ' NOT ENFORCED' END)
    FROM snowflake_adopt.beside b CROSS JOIN LATERAL snowflake_adopt.places(b.relation, b.relation) p
    JOIN pg_constraint c ON conrelid = b.relation AND contype = 'c' AND conkey && p.narrow AND NOT conkey && p.wide
    WHERE b.migration = checks.migration
$$;
COMMENT ON FUNCTION snowflake_adopt.checks(regclass) IS
    'not to be called: the CHECK constraints of narrow columns, for the columns beside them';

-- The foreign keys of narrow columns, for the second ones.
CREATE FUNCTION snowflake_adopt.foreign_keys(migration regclass, OUT relation regclass, OUT old oid, OUT name name,
    OUT definition text) RETURNS SETOF record
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT conrelid::regclass, c.oid, format('snowflake_adopt_%s', c.oid), concat(
        format('FOREIGN KEY (%s) REFERENCES %s (%s)',
            snowflake_adopt.column_list(conrelid,
                coalesce(snowflake_adopt.replaced(conkey, r.narrow, r.wide), conkey)), confrelid::regclass,
            snowflake_adopt.column_list(confrelid,
                coalesce(snowflake_adopt.replaced(confkey, d.narrow, d.wide), confkey))),
        CASE confmatchtype WHEN 'f' THEN ' MATCH FULL' END,
        ' ON UPDATE ' || snowflake_adopt.action(confupdtype), ' ON DELETE ' || snowflake_adopt.action(confdeltype),
        ' (' || snowflake_adopt.column_list(conrelid,
            coalesce(snowflake_adopt.replaced(confdelsetcols, r.narrow, r.wide), confdelsetcols)) || ')',
        CASE WHEN condeferrable THEN ' DEFERRABLE' END, CASE WHEN condeferred THEN ' INITIALLY DEFERRED' END,
        CASE WHEN NOT snowflake_adopt.is_enforced(c) THEN ' NOT ENFORCED' END)
    FROM pg_constraint c CROSS JOIN LATERAL snowflake_adopt.places(conrelid, conrelid) r
        CROSS JOIN LATERAL snowflake_adopt.places(confrelid, confrelid) d
    -- Also of columns that are bigint already.
    WHERE contype = 'f' AND conparentid = 0 AND (conkey && r.narrow OR confkey && d.narrow)
        AND ARRAY[conrelid, confrelid]
            && ARRAY(SELECT b.relation::oid FROM snowflake_adopt.beside b WHERE b.migration = foreign_keys.migration)
$$;
COMMENT ON FUNCTION snowflake_adopt.foreign_keys(regclass) IS
    'not to be called: the foreign keys of narrow columns, for the columns beside them';

-- All that are locked for a swap.
CREATE FUNCTION snowflake_adopt.tables(migration oid) RETURNS SETOF regclass
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT migration::regclass
    UNION
    SELECT b.relation FROM snowflake_adopt.beside b WHERE b.migration = tables.migration
    UNION
    SELECT joined::regclass FROM snowflake_adopt.foreign_keys(tables.migration) f JOIN pg_constraint c ON c.oid = f.old
        CROSS JOIN LATERAL (VALUES (conrelid), (confrelid)) j(joined)
$$;
COMMENT ON FUNCTION snowflake_adopt.tables(oid) IS
    'not to be called: the tables of a migration, and those that foreign keys join to them';

CREATE FUNCTION snowflake_adopt.constraints_to_do(migration regclass) RETURNS SETOF text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN n.oid IS NULL
        THEN format('SELECT snowflake_adopt.add_constraint(%s, %s, %L, %L)', constraints_to_do.migration::oid,
            w.relation::oid, w.name, w.definition)
        WHEN is_of_others OR is_altered
            THEN format('SELECT snowflake_adopt.drop_constraint(%s, %L)', w.relation::oid, w.name)
        ELSE format('SELECT snowflake_adopt.do_as(%s, %L)', relowner,
            format('ALTER TABLE %s VALIDATE CONSTRAINT %I', w.relation, w.name)) END
    -- mutant: migration-equality
    FROM (SELECT 1 AS place, relation, NULL::oid AS old, name, definition
        FROM snowflake_adopt.equality(constraints_to_do.migration)
        UNION ALL
        SELECT 2, * FROM snowflake_adopt.checks(constraints_to_do.migration)
        UNION ALL
        SELECT 3, * FROM snowflake_adopt.foreign_keys(constraints_to_do.migration)) w
    JOIN pg_class ON pg_class.oid = w.relation
    LEFT JOIN pg_constraint n ON n.conrelid = w.relation AND n.conname = w.name
    LEFT JOIN pg_constraint o ON o.oid = w.old
    -- mutant: constraint-of-others
    CROSS JOIN LATERAL (SELECT n.oid IS NOT NULL
        AND NOT EXISTS (SELECT FROM snowflake_adopt.made WHERE constraint_oid = n.oid)) m(is_of_others)
    -- By ALTER CONSTRAINT, since this one was added.
    CROSS JOIN LATERAL (SELECT o.oid IS NOT NULL AND (n.condeferrable, n.condeferred, snowflake_adopt.is_enforced(n))
        <> (o.condeferrable, o.condeferred, snowflake_adopt.is_enforced(o))) s(is_altered)
    WHERE n.oid IS NULL OR is_of_others OR is_altered OR NOT n.convalidated AND o.convalidated IS NOT FALSE
    ORDER BY place, n.oid IS NOT NULL, w.relation, w.old
$$;
COMMENT ON FUNCTION snowflake_adopt.constraints_to_do(regclass) IS
    'not to be called: the commands that add and validate the constraints of a migration which are missing';

CREATE FUNCTION snowflake_adopt.add_constraint(migration oid, relation oid, name name, definition text) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    called oid[] := snowflake_adopt.owners_called(ARRAY[relation]);
    owner oid := (SELECT relowner FROM pg_class WHERE oid = relation);
BEGIN
    -- A foreign key of another role that came after the start.
    IF NOT snowflake_adopt.may_become(owner) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = format('You do not have the rights of %s, who owns %s.', owner::regrole, relation::regclass);
    END IF;
    PERFORM snowflake_adopt.wait_briefly_for_locks();
    PERFORM snowflake_adopt.do_as(owner,
        format('ALTER TABLE %s ADD CONSTRAINT %I %s NOT VALID', relation::regclass, name, definition));
    -- Or whoever writes a row would run code of another role.
    -- mutant: code-of-others
    PERFORM snowflake_adopt.must_call_only(ARRAY[relation::regclass], called::regrole[]);
    INSERT INTO snowflake_adopt.made SELECT migration, oid FROM pg_constraint WHERE conrelid = relation
        AND conname = name;
END
$$;
COMMENT ON FUNCTION snowflake_adopt.add_constraint(oid, oid, name, text) IS
    'not to be called: adds a constraint to a table, NOT VALID';

CREATE FUNCTION snowflake_adopt.drop_constraint(relation oid, name name) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM snowflake_adopt.wait_briefly_for_locks();
    PERFORM snowflake_adopt.do_as((SELECT relowner FROM pg_class WHERE oid = relation),
        format('ALTER TABLE %s DROP CONSTRAINT %I', relation::regclass, name));
END
$$;
COMMENT ON FUNCTION snowflake_adopt.drop_constraint(oid, name) IS
    'not to be called: drops a constraint of a table that has the name of one to be made';
