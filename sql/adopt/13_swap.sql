-- Adopting online: the second columns take the places of the first, in one short transaction

-- Any name can say " ON ONLY ", so this cuts what follows the name of the index.
CREATE FUNCTION snowflake_adopt.index_of_partitions(index oid) RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
        SET quote_all_identifiers = off AS $$
    SELECT overlay(pg_get_indexdef(index) PLACING '' FROM length(before) + 1 FOR length('ONLY '))
    FROM pg_index JOIN pg_class ON oid = indexrelid
    CROSS JOIN LATERAL (SELECT format('CREATE %sINDEX %I ON ', CASE WHEN indisunique THEN 'UNIQUE ' END,
        relname)) b(before) WHERE indexrelid = index
$$;
COMMENT ON FUNCTION snowflake_adopt.index_of_partitions(oid) IS
    'not to be called: the command that creates an index of a partitioned table and of its partitions';

-- Successors of indexes have the names of the old ones again, and carry their constraints.
CREATE FUNCTION snowflake_adopt.renames_indexes(migration regclass, OUT place integer, OUT owner oid, OUT command text)
    RETURNS SETOF record
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
        SET quote_all_identifiers = off AS $$
    WITH renamed AS (
        SELECT i.leaf, i.successor, c.relname, c.relnamespace::regnamespace AS schema, k.contype, k.conname,
            k.condeferrable, k.condeferred,
            indisclustered, indisreplident, c.oid, c.relowner, k.oid AS constraint_oid
        FROM snowflake_adopt.indexes(renames_indexes.migration) i JOIN pg_class c ON c.oid = i.index
            JOIN pg_index x ON x.indexrelid = c.oid
        LEFT JOIN pg_constraint k ON k.conindid = c.oid AND k.conrelid = i.leaf AND k.contype IN ('p', 'u'))
    SELECT 10, relowner, CASE WHEN contype IS NULL
        THEN format('ALTER INDEX %s.%I RENAME TO %I', schema, successor, relname)
        ELSE format('ALTER TABLE %s ADD CONSTRAINT %I %s USING INDEX %I%s%s', leaf, conname,
            CASE contype WHEN 'p' THEN 'PRIMARY KEY' ELSE 'UNIQUE' END, successor,
                CASE WHEN condeferrable THEN ' DEFERRABLE' END,
            CASE WHEN condeferred THEN ' INITIALLY DEFERRED' END) END FROM renamed
    UNION ALL
    SELECT 12, relowner, format('ALTER TABLE %s CLUSTER ON %I', leaf, relname) FROM renamed WHERE indisclustered
    UNION ALL
    SELECT 12, relowner, format('ALTER TABLE %s REPLICA IDENTITY USING INDEX %I', leaf, relname) FROM renamed
        WHERE indisreplident
    UNION ALL
    SELECT 12, relowner, format('COMMENT ON INDEX %s.%I IS %L', schema, relname, obj_description(oid, 'pg_class'))
        FROM renamed WHERE obj_description(oid, 'pg_class') IS NOT NULL
    UNION ALL
    SELECT 12, relowner, format('COMMENT ON CONSTRAINT %I ON %s IS %L', conname, leaf,
        obj_description(constraint_oid, 'pg_constraint'))
    FROM renamed WHERE obj_description(constraint_oid, 'pg_constraint') IS NOT NULL
    UNION ALL
    -- The columns of an index have names and statistics targets of their own.
    SELECT 12, renamed.relowner, n.command FROM renamed JOIN pg_class s ON s.relnamespace = schema
        AND s.relname = successor
    JOIN pg_attribute o ON o.attrelid = renamed.oid JOIN pg_attribute a ON a.attrelid = s.oid AND a.attnum = o.attnum
        CROSS JOIN LATERAL (VALUES
        (o.attname <> a.attname,
            format('ALTER TABLE %s.%I RENAME COLUMN %I TO %I', schema, renamed.relname, a.attname, o.attname)),
        (o.attstattarget >= 0, format('ALTER INDEX %s.%I ALTER COLUMN %s SET STATISTICS %s', schema, renamed.relname,
            o.attnum, o.attstattarget))) n(is_needed, command)
    WHERE is_needed
    UNION ALL
    -- Those of a partitioned table adopt the indexes of its partitions.
    SELECT 11, c.relowner, CASE WHEN k.oid IS NULL THEN snowflake_adopt.index_of_partitions(indexrelid)
        ELSE format('ALTER TABLE %s ADD CONSTRAINT %I %s', indrelid::regclass, conname, pg_get_constraintdef(k.oid)) END
    FROM (SELECT DISTINCT b.relation FROM snowflake_adopt.beside b WHERE b.migration = renames_indexes.migration) b
    CROSS JOIN LATERAL snowflake_adopt.places(b.relation, b.relation) p
    JOIN pg_index ON indrelid = b.relation AND indkey::smallint[] && p.narrow JOIN pg_class c ON c.oid = indexrelid
        AND c.relkind = 'I'
    LEFT JOIN pg_constraint k ON k.conindid = indexrelid AND k.contype IN ('p', 'u')
$$;
COMMENT ON FUNCTION snowflake_adopt.renames_indexes(regclass) IS
    'not to be called: the commands of a swap for indexes';

CREATE FUNCTION snowflake_adopt.keys_of_partitions(key oid, OUT relation regclass, OUT name name) RETURNS SETOF record
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE keys AS (
        SELECT oid, conrelid, confrelid, conname FROM pg_constraint WHERE oid = key
        UNION ALL
        SELECT c.oid, c.conrelid, c.confrelid, c.conname FROM keys k JOIN pg_constraint c ON c.conparentid = k.oid
            AND c.confrelid = k.confrelid)
    SELECT conrelid, conname FROM keys
$$;
COMMENT ON FUNCTION snowflake_adopt.keys_of_partitions(oid) IS
    'not to be called: a foreign key, and those of the partitions of its table';

CREATE FUNCTION snowflake_adopt.renames_constraints(migration regclass, OUT place integer, OUT owner oid,
    OUT command text) RETURNS SETOF record
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
        SET quote_all_identifiers = off AS $$
    WITH renamed AS (
        SELECT * FROM snowflake_adopt.checks(renames_constraints.migration)
        UNION ALL
        SELECT * FROM snowflake_adopt.foreign_keys(renames_constraints.migration))
    SELECT step, relowner, n.command FROM renamed r JOIN pg_constraint c ON c.oid = r.old
        JOIN pg_class t ON t.oid = r.relation CROSS JOIN LATERAL (VALUES
        (3, CASE contype WHEN 'f' THEN format('ALTER TABLE %s DROP CONSTRAINT %I', r.relation, conname) END),
        (11, CASE contype WHEN 'c'
            THEN format('ALTER TABLE %s RENAME CONSTRAINT %I TO %I', r.relation, r.name, conname) END),
        (12, format('COMMENT ON CONSTRAINT %I ON %s IS %L', conname, r.relation,
            obj_description(c.oid, 'pg_constraint')))) n(step, command)
    WHERE n.command IS NOT NULL AND (step <> 12 OR obj_description(c.oid, 'pg_constraint') IS NOT NULL)
    UNION ALL
    -- Those of partitions keep their names when that of the table is renamed.
    SELECT 11, relowner, format('ALTER TABLE %s RENAME CONSTRAINT %I TO %I', s.relation, s.name, o.name)
    FROM snowflake_adopt.foreign_keys(renames_constraints.migration) f JOIN pg_class t ON t.oid = f.relation
        JOIN pg_constraint n ON n.conrelid = f.relation AND n.conname = f.name
    CROSS JOIN LATERAL snowflake_adopt.keys_of_partitions(n.oid) s
        JOIN LATERAL snowflake_adopt.keys_of_partitions(f.old) o ON o.relation = s.relation
$$;
COMMENT ON FUNCTION snowflake_adopt.renames_constraints(regclass) IS
    'not to be called: the commands of a swap for CHECK constraints and foreign keys';

-- What a column has beside its values.
CREATE FUNCTION snowflake_adopt.replaces_columns(migration regclass, OUT place integer, OUT owner oid,
    OUT command text) RETURNS SETOF record
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
        SET quote_all_identifiers = off AS $$
    WITH replaced AS (
        SELECT b.relation, b.column_name, b.beside, relowner, a.*, a.attnum AS number FROM snowflake_adopt.beside b
            JOIN pg_class c ON c.oid = b.relation
        JOIN pg_attribute a ON attrelid = b.relation AND attname = b.column_name
            WHERE b.migration = replaces_columns.migration)
    -- From PostgreSQL 18 on, it is a constraint that has a name.
    SELECT 6, relowner, CASE WHEN k.oid IS NULL
        THEN format('ALTER TABLE %s ALTER COLUMN %I SET NOT NULL', relation, beside)
        ELSE format('ALTER TABLE %s ADD CONSTRAINT snowflake_adopt_%s NOT NULL %I%s', relation, k.oid, beside,
            k.suffix) END
    FROM replaced CROSS JOIN LATERAL snowflake_adopt.not_null_of(attrelid, number) k WHERE attnotnull
    UNION ALL
    -- That of a partition which was attached becomes one with it, and is renamed with it only if they have one name.
    SELECT 5, r.relowner, format('ALTER TABLE %s RENAME CONSTRAINT %I TO snowflake_adopt_%s', c.conrelid::regclass,
        c.conname, k.oid)
    FROM replaced r CROSS JOIN LATERAL snowflake_adopt.not_null_of(r.attrelid, number) k
        CROSS JOIN LATERAL snowflake_adopt.members(relation) member
    JOIN pg_attribute o ON o.attrelid = member::oid AND o.attname = r.beside
    JOIN pg_constraint c ON c.conrelid = o.attrelid AND c.contype = 'n' AND c.conkey = ARRAY[o.attnum]
        AND c.coninhcount = 0
    WHERE k.oid IS NOT NULL AND member <> relation
    UNION ALL
    SELECT 11, relowner, format('ALTER TABLE %s RENAME CONSTRAINT snowflake_adopt_%s TO %I', relation, k.oid, conname)
    FROM replaced JOIN pg_constraint k ON conrelid = attrelid AND contype = 'n' AND conkey = ARRAY[number]
    UNION ALL
    SELECT 7, relowner, format('ALTER TABLE %s %s', relation, string_agg(format('DROP COLUMN %I', column_name), ', '))
    FROM replaced GROUP BY relation, relowner
    UNION ALL
    SELECT 8, relowner, format('ALTER TABLE %s RENAME COLUMN %I TO %I', relation, beside, column_name) FROM replaced
    UNION ALL
    SELECT 9, relowner, format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s', relation, column_name,
        pg_get_expr(adbin, adrelid))
    FROM replaced JOIN pg_attrdef ON adrelid = attrelid AND adnum = number
    UNION ALL
    SELECT 9, relowner, format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS %s', relation, column_name,
        attstattarget) FROM replaced WHERE attstattarget >= 0
    UNION ALL
    SELECT 9, relowner, format('ALTER TABLE %s ALTER COLUMN %I SET (%s)', relation, column_name,
        string_agg(format('%I = %L', option_name, option_value), ', '))
    FROM replaced CROSS JOIN LATERAL pg_options_to_table(attoptions)
    -- Some servers keep another one there, which not all accept.
    WHERE option_name LIKE 'n\_distinct%' GROUP BY relation, column_name, relowner
    UNION ALL
    SELECT 9, relowner, format('COMMENT ON COLUMN %s.%I IS %L', relation, column_name,
        col_description(attrelid, number))
    FROM replaced WHERE col_description(attrelid, number) IS NOT NULL
    UNION ALL
    SELECT 9, relowner, format('GRANT %s (%I) ON %s TO %s%s', privilege_type, column_name, relation,
        CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END,
            CASE WHEN is_grantable THEN ' WITH GRANT OPTION' END)
    FROM replaced CROSS JOIN LATERAL aclexplode(attacl)
    UNION ALL
    SELECT DISTINCT 13, relowner, pg_get_statisticsobjdef(s.oid) FROM replaced
        JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass
        AND d.refobjid = attrelid AND d.refobjsubid = number AND d.classid = 'pg_statistic_ext'::regclass
            JOIN pg_statistic_ext s ON s.oid = d.objid
    UNION ALL
    SELECT DISTINCT 14, relowner,
        format('COMMENT ON STATISTICS %s.%I IS %L', stxnamespace::regnamespace, stxname,
            obj_description(s.oid, 'pg_statistic_ext'))
    FROM replaced JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = attrelid
        AND d.refobjsubid = number
        AND d.classid = 'pg_statistic_ext'::regclass JOIN pg_statistic_ext s ON s.oid = d.objid
            WHERE obj_description(s.oid, 'pg_statistic_ext') IS NOT NULL
    UNION ALL
    SELECT DISTINCT 14, relowner,
        format('ALTER STATISTICS %s.%I SET STATISTICS %s', stxnamespace::regnamespace, stxname, stxstattarget)
    FROM replaced JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = attrelid
        AND d.refobjsubid = number
        AND d.classid = 'pg_statistic_ext'::regclass JOIN pg_statistic_ext s ON s.oid = d.objid WHERE stxstattarget >= 0
    UNION ALL
    -- A sequence goes with the column that it belongs to.
    SELECT step, replaced.relowner,
        format('ALTER SEQUENCE %s OWNED BY %s', objid::regclass,
            CASE step WHEN 5 THEN 'NONE' ELSE format('%s.%I', relation, column_name) END)
    FROM replaced JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND refclassid = 'pg_class'::regclass
        AND refobjid = attrelid
        AND refobjsubid = number AND deptype IN ('a', 'i') JOIN pg_class s ON s.oid = objid AND s.relkind = 'S'
            CROSS JOIN (VALUES (5), (9)) u(step)
$$;
COMMENT ON FUNCTION snowflake_adopt.replaces_columns(regclass) IS
    'not to be called: the commands of a swap for columns';

-- PL/pgSQL keeps the types of NEW and OLD in the sessions that have called a function, until the function changes.
CREATE FUNCTION snowflake_adopt.refreshes_functions(migration regclass, OUT owner oid, OUT command text)
    RETURNS SETOF record
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
        SET quote_all_identifiers = off AS $$
    SELECT DISTINCT proowner, format('ALTER FUNCTION %s COST %s', p.oid::regprocedure, procost)
    FROM snowflake_adopt.leaves(refreshes_functions.migration) l JOIN pg_trigger ON tgrelid IN (l.root, l.leaf)
        AND NOT tgisinternal
    JOIN pg_proc p ON p.oid = tgfoid JOIN pg_language ON pg_language.oid = prolang AND lanname NOT IN ('c', 'internal')
    WHERE snowflake_adopt.may_become(proowner)
$$;
COMMENT ON FUNCTION snowflake_adopt.refreshes_functions(regclass) IS
    'not to be called: the commands of a swap after which trigger functions know the new types';

-- Else why_not_remade() has told of it.
CREATE FUNCTION snowflake_adopt.owner_of_dependents(relation regclass, column_name name) RETURNS oid
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT max(d.owner) FROM snowflake_adopt.dependents(ARRAY[relation], ARRAY[column_name], true) d
$$;
COMMENT ON FUNCTION snowflake_adopt.owner_of_dependents(regclass, name) IS
    'not to be called: the one role that owns the objects which a swap recreates, and the tables that they read';

CREATE FUNCTION snowflake_adopt.swap_commands(migration regclass, OUT owner oid, OUT command text) RETURNS SETOF record
    LANGUAGE sql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    WITH m AS (
        SELECT m.*, relowner FROM snowflake_adopt.migration m JOIN pg_class c ON c.oid = m.relation
            WHERE m.relation = swap_commands.migration)
    SELECT commands.owner, commands.command FROM (
        SELECT DISTINCT 1, 0, 0, relowner, format('DROP TRIGGER "~snowflake_adopt" ON %s', b.relation)
        FROM snowflake_adopt.beside b JOIN pg_class c ON c.oid = b.relation WHERE b.migration = swap_commands.migration
        UNION ALL
        SELECT CASE WHEN r.place < 9 THEN 2 ELSE 14 END, r.place, nth,
            snowflake_adopt.owner_of_dependents(m.relation, m.column_name), r.command
        FROM m CROSS JOIN LATERAL snowflake_adopt.recreates(ARRAY[m.relation], ARRAY[m.column_name], true) r
        -- swap() does the rest.
        WHERE r.place <> 2
        UNION ALL
        SELECT place, 0, 0, r.owner, r.command FROM snowflake_adopt.replaces_columns(swap_commands.migration) r
        UNION ALL
        SELECT place, 0, 0, r.owner, r.command FROM snowflake_adopt.renames_indexes(swap_commands.migration) r
        UNION ALL
        SELECT place, 0, 0, r.owner, r.command FROM snowflake_adopt.renames_constraints(swap_commands.migration) r
        UNION ALL
        -- What numbered the key is kept before its column goes; the default comes last.
        SELECT CASE WHEN s.step < 9 THEN 4 ELSE 13 END, 0, s.step, relowner, s.command
        FROM m CROSS JOIN LATERAL snowflake_adopt.sets_default(m.relation, m.column_name) s
        UNION ALL
        SELECT 15, 0, 0, r.owner, r.command FROM snowflake_adopt.refreshes_functions(swap_commands.migration) r
        UNION ALL
        SELECT 16, 0, 0, relowner,
            format('SELECT snowflake_adopt.must_be_bigint(ARRAY[%s]::regclass[], ARRAY[%L]::name[])', relation::oid,
                column_name) FROM m
    ) commands(place, of_recreation, nth, owner, command) ORDER BY place, of_recreation, nth, command
$$;
COMMENT ON FUNCTION snowflake_adopt.swap_commands(regclass) IS
    'not to be called: the commands of a swap, in their order, and the roles that run them';

CREATE FUNCTION snowflake_adopt.grants(migration oid) RETURNS text
    LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(concat_ws(' ', attrelid, attnum, attacl), ',' ORDER BY attrelid, attnum)
    FROM snowflake_adopt.beside b JOIN pg_attribute ON attrelid = b.relation AND attname = column_name
        WHERE b.migration = grants.migration
$$;
COMMENT ON FUNCTION snowflake_adopt.grants(oid) IS
    'not to be called: the privileges on the columns that a swap replaces, as a text';

CREATE FUNCTION snowflake_adopt.swap_to_do(migration regclass) RETURNS SETOF text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('SELECT snowflake_adopt.swap(%s)', relation::oid) FROM snowflake_adopt.migration
        WHERE relation = swap_to_do.migration
$$;
COMMENT ON FUNCTION snowflake_adopt.swap_to_do(regclass) IS
    'not to be called: the command that swaps the columns of a migration';

CREATE FUNCTION snowflake_adopt.swap(migration oid) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on SET quote_all_identifiers = off
    -- run_calling_only() does not see what other processes call.
    SET max_parallel_maintenance_workers = 0 AS $$
DECLARE
    phase text;
    command text;
    owner oid;
    as_roles oid[];
    commands text[];
    locks text[];
    settings text;
    lost text;
    m snowflake_adopt.migration := (SELECT m FROM snowflake_adopt.migration m WHERE m.relation = swap.migration);
    greatest bigint := snowflake_adopt.greatest_wide_id(m.relation, m.column_name);
    -- In another order each time: whoever joins them the other way round would end each try as a deadlock.
    -- The tables of others that foreign keys reference are locked when the foreign keys are dropped.
    tables oid[] := ARRAY(SELECT t::oid FROM snowflake_adopt.tables(swap.migration) t
        WHERE snowflake_adopt.may_change(t) ORDER BY random());
    table_oid oid;
    called oid[];
    grants text;
BEGIN
    PERFORM snowflake_adopt.wait_briefly_for_locks();
    -- Nobody alters the tables from here on. They are read and written until it is known what is to be done.
    FOREACH table_oid IN ARRAY tables LOOP
        -- mutant: swap-keeps-out-ddl
        PERFORM snowflake_adopt.lock_with_partitions(table_oid, false);
    END LOOP;
    -- Somebody may have added an index, a foreign key or a partition before.
    FOREACH phase IN ARRAY array_remove(snowflake_adopt.phases('adopted'), 'swap') LOOP
        SELECT t.command INTO command FROM snowflake_adopt.to_do(phase, migration::regclass) t;
        IF command IS NOT NULL THEN
            RETURN;
        END IF;
    END LOOP;
    SELECT string_agg(why, ' ') INTO lost FROM snowflake_adopt.why_not_swapped(m.relation, m.column_name, greatest) why;
    -- mutant: swap-loses-nothing
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = lost;
    END IF;
    grants := snowflake_adopt.grants(migration);
    SELECT array_agg(c.owner ORDER BY nth), array_agg(c.command ORDER BY nth) INTO as_roles, commands
        FROM snowflake_adopt.swap_commands(migration::regclass) WITH ORDINALITY c(owner, command, nth);
    owner := snowflake_adopt.owner_of_dependents(m.relation, m.column_name);
    SELECT coalesce(array_agg(r.command ORDER BY r.nth) FILTER (WHERE r.place = 4), '{}'),
        min(r.command) FILTER (WHERE r.place = 2)
        INTO locks, settings FROM snowflake_adopt.recreates(ARRAY[m.relation], ARRAY[m.column_name], true) r;
    -- do_as() would take them back.
    IF settings IS NOT NULL THEN
        EXECUTE settings;
    END IF;
    -- Who waits behind the first lock waits for the others, too.
    PERFORM set_config('lock_timeout', greatest(250 / (cardinality(tables) + cardinality(locks)), 25)::text, true);
    -- Readers lock a view before its tables: the other way round, each of them would be a deadlock.
    FOREACH command IN ARRAY locks LOOP
        PERFORM snowflake_adopt.do_as(owner, command);
    END LOOP;
    FOREACH table_oid IN ARRAY tables LOOP
        PERFORM snowflake_adopt.lock_with_partitions(table_oid, true);
    END LOOP;
    called := snowflake_adopt.owners_called(tables);
    -- GRANT and REVOKE wait for this. Before PostgreSQL 18, they wait for no lock of a table.
    -- mutant: swap-holds-privileges
    PERFORM FROM snowflake_adopt.beside b JOIN pg_attribute a ON attrelid = b.relation AND attname = column_name
        WHERE b.migration = swap.migration FOR UPDATE OF a;
    -- Else what was revoked while this waited would be granted again.
    -- mutant: swap-grants-again
    IF grants IS DISTINCT FROM snowflake_adopt.grants(migration) THEN
        RETURN;
    END IF;
    -- Somebody may have called undo() or pause() while this waited.
    PERFORM FROM snowflake_adopt.migration n WHERE n.relation = swap.migration AND n.goal = 'adopted'
        AND NOT n.is_paused FOR UPDATE NOWAIT;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    FOR nth IN 1 .. cardinality(commands) LOOP
        -- mutant: code-of-others-by-swap
        PERFORM snowflake_adopt.do_as(as_roles[nth], format('SELECT snowflake_adopt.run_calling_only(%L, %L, %L, %L)',
            as_roles[nth]::regrole, tables, called::regrole[], commands[nth]));
    END LOOP;
    -- There are IDs from elsewhere that are greater than new ones would be. Last, since an error takes nothing of this
    -- back.
    IF greatest >= snowflake_adopt.lowest_id(clock_timestamp()) THEN
        PERFORM snowflake_adopt.advance_past_for_caller(greatest);
    END IF;
    DELETE FROM snowflake_adopt.migration d WHERE d.relation = swap.migration;
END
$$;
COMMENT ON FUNCTION snowflake_adopt.swap(oid) IS
    'not to be called: lets the second columns take the places of the first, and ends the migration';
