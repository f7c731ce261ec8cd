-- Adopting online: second columns, which a trigger keeps equal to the first ones

CREATE FUNCTION snowflake_adopt.copy_columns() RETURNS trigger
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_adopt_copy_wrapper';
COMMENT ON FUNCTION snowflake_adopt.copy_columns() IS
    'trigger of a migration: copies columns into the columns beside them, which its arguments name in pairs';

CREATE FUNCTION snowflake_adopt.succeeds(name name) RETURNS oid
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT substring(name::text FROM '^snowflake_adopt_([0-9]{1,10})$')::bigint::oid
$$;
COMMENT ON FUNCTION snowflake_adopt.succeeds(name) IS
    'not to be called: the index or constraint whose successor has this name; NULL if it is no such name';

-- Who waits for a lock of ours gets it after a quarter of a second. Autovacuum makes room for it after 20 ms, and it is
-- this transaction that a deadlock ends, since nobody else's looks for one so soon.
CREATE FUNCTION snowflake_adopt.wait_briefly_for_locks() RETURNS void
    LANGUAGE sql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT set_config('lock_timeout', '250ms', true), set_config('deadlock_timeout', '20ms', true)
$$;
COMMENT ON FUNCTION snowflake_adopt.wait_briefly_for_locks() IS
    'not to be called: for this transaction, lock_timeout and deadlock_timeout so short that nobody waits for it long';

-- Also columns of foreign keys that came after the start.
CREATE FUNCTION snowflake_adopt.new_columns(migration regclass, OUT relation regclass, OUT column_name name)
    RETURNS SETOF record
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT n.relation, n.column_name FROM snowflake_adopt.migration m
    CROSS JOIN LATERAL snowflake_adopt.narrow(ARRAY[m.relation], ARRAY[m.column_name]) n
        WHERE m.relation = new_columns.migration
    EXCEPT
    SELECT b.relation, b.column_name FROM snowflake_adopt.beside b WHERE b.migration = new_columns.migration
$$;
COMMENT ON FUNCTION snowflake_adopt.new_columns(regclass) IS
    'not to be called: the narrow columns of a migration which it does not know yet';

CREATE FUNCTION snowflake_adopt.lost_columns(migration regclass) RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(format('%I of %s', b.column_name, b.relation), ', ' ORDER BY b.relation, b.column_name)
        FROM snowflake_adopt.beside b
    WHERE b.migration = lost_columns.migration
        AND NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = b.relation AND attname = b.column_name)
$$;
COMMENT ON FUNCTION snowflake_adopt.lost_columns(regclass) IS
    'not to be called: the columns of a migration which somebody has renamed or dropped; NULL if there are none';

CREATE FUNCTION snowflake_adopt.take_in_columns(migration regclass) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lost text := snowflake_adopt.lost_columns(migration);
    obstacles text := (SELECT string_agg(why, ' ') FROM (
        SELECT n.relation, array_agg(n.column_name) AS columns FROM snowflake_adopt.new_columns(migration) n
            GROUP BY 1) n
        CROSS JOIN LATERAL (
            SELECT * FROM snowflake_adopt.why_no_column(n.relation, columns)
            UNION ALL
            SELECT * FROM snowflake_adopt.why_no_names(n.relation, columns)
            UNION ALL
            SELECT * FROM snowflake_adopt.why_published(n.relation, columns,
                (SELECT is_published FROM snowflake_adopt.migration m
                    WHERE m.relation = take_in_columns.migration))) w(why));
BEGIN
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_column',
            MESSAGE = format('there is no column %s any more: rename it back, or call snowflake_adopt.undo()', lost);
    END IF;
    -- Of a foreign key that came after the start.
    IF obstacles IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = obstacles;
    END IF;
    INSERT INTO snowflake_adopt.beside
        SELECT migration, n.relation, n.column_name, snowflake_adopt.beside(n.column_name)
            FROM snowflake_adopt.new_columns(migration) n;
END
$$;
COMMENT ON FUNCTION snowflake_adopt.take_in_columns(regclass) IS
    'not to be called: notes the narrow columns of a migration; an error if one of them is lost';

CREATE FUNCTION snowflake_adopt.columns_to_do(migration regclass) RETURNS SETOF text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('SELECT snowflake_adopt.take_in_columns(%s)', columns_to_do.migration::oid)
    -- Not between batches, since it takes a tenth of a batch to look.
    WHERE CASE WHEN EXISTS (SELECT FROM snowflake_adopt.copying c WHERE c.migration = columns_to_do.migration
        AND NOT isempty(c.todo)) THEN false
        ELSE snowflake_adopt.lost_columns(columns_to_do.migration) IS NOT NULL
            OR EXISTS (SELECT FROM snowflake_adopt.new_columns(columns_to_do.migration)) END
    UNION ALL
    (SELECT DISTINCT format('SELECT snowflake_adopt.add_columns(%s)', b.relation::oid) FROM snowflake_adopt.beside b
    WHERE b.migration = columns_to_do.migration
        AND NOT EXISTS (SELECT FROM pg_trigger t JOIN pg_attribute ON attrelid = tgrelid AND attname = b.beside
        WHERE tgrelid = b.relation AND tgfoid = 'snowflake_adopt.copy_columns'::regproc AND tgenabled = 'A')
    ORDER BY 1)
    UNION ALL
    -- Or what somebody has dropped since would come back with the swap.
    -- mutant: dropped-comes-back
    SELECT format('SELECT snowflake_adopt.drop_constraint(%s, %L)', conrelid, conname) FROM snowflake_adopt.made m
        JOIN pg_constraint s ON s.oid = constraint_oid
    WHERE m.migration = columns_to_do.migration AND snowflake_adopt.succeeds(conname) IS NOT NULL
        AND NOT EXISTS (SELECT FROM pg_constraint o WHERE o.oid = snowflake_adopt.succeeds(s.conname))
$$;
COMMENT ON FUNCTION snowflake_adopt.columns_to_do(regclass) IS
    'not to be called: the commands that add the columns and triggers of a migration which are missing, and drop '
    'constraints whose originals are';

CREATE FUNCTION snowflake_adopt.add_columns(table_oid oid) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner oid := (SELECT relowner FROM pg_class WHERE oid = table_oid);
    added text;
    differs text;
    pairs text;
BEGIN
    SELECT string_agg(format('ADD COLUMN IF NOT EXISTS %I bigint', beside), ', '),
        string_agg(format('NEW.%I IS DISTINCT FROM NEW.%I', beside, column_name), ' OR '),
        string_agg(format('%L, %L', column_name, beside), ', ')
        INTO added, differs, pairs FROM snowflake_adopt.beside WHERE relation = table_oid;
    PERFORM snowflake_adopt.wait_briefly_for_locks();
    PERFORM snowflake_adopt.lock_with_partitions(table_oid, true);
    -- Whoever opens a partitioned table for these commands simplifies the expressions of its key.
    PERFORM snowflake_adopt.do_as(owner,
        format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS snowflake_adopt_equal, %s', table_oid::regclass, added));
    DELETE FROM snowflake_adopt.copying USING snowflake_adopt.members(table_oid) member WHERE relation = member;
    -- Triggers run in the order of their names, and this one must run after those that change a key.
    PERFORM snowflake_adopt.do_as(owner,
        format('CREATE OR REPLACE TRIGGER "~snowflake_adopt" BEFORE INSERT OR UPDATE ON %s FOR EACH ROW WHEN (%s) '
            'EXECUTE FUNCTION snowflake_adopt.copy_columns(%s)',
            table_oid::regclass, differs, pairs));
    -- Also for rows that logical replication applies.
    PERFORM snowflake_adopt.do_as(owner,
        format('ALTER TABLE %s ENABLE ALWAYS TRIGGER "~snowflake_adopt"', table_oid::regclass));
END
$$;
COMMENT ON FUNCTION snowflake_adopt.add_columns(oid) IS
    'not to be called: adds columns beside the narrow ones of a table, and the trigger that keeps them equal';

-- Back to as it was before

CREATE FUNCTION snowflake_adopt.undo_to_do(migration regclass) RETURNS SETOF text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('SELECT snowflake_adopt.remove_columns(%s)', b.relation::oid) FROM snowflake_adopt.beside b
    WHERE b.migration = undo_to_do.migration
        AND EXISTS (SELECT FROM pg_attribute WHERE attrelid = b.relation AND attname = b.beside)
    ORDER BY b.relation DESC
$$;
COMMENT ON FUNCTION snowflake_adopt.undo_to_do(regclass) IS
    'not to be called: the commands that remove what a migration has made';

CREATE FUNCTION snowflake_adopt.remove_columns(table_oid oid) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner oid := (SELECT relowner FROM pg_class WHERE oid = table_oid);
    command text;
    of_key oid;
BEGIN
    PERFORM snowflake_adopt.wait_briefly_for_locks();
    -- mutant: undo-of-others
    FOR of_key, command IN SELECT relowner, format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname)
        FROM pg_constraint JOIN pg_class t ON t.oid = conrelid
        -- PostgreSQL names the others when the columns are to go.
        WHERE contype = 'f' AND table_oid IN (conrelid, confrelid) AND conparentid = 0
            AND snowflake_adopt.may_become(relowner)
            AND EXISTS (SELECT FROM snowflake_adopt.beside b JOIN pg_attribute ON attrelid = b.relation
                AND attname = b.beside
                WHERE attrelid = conrelid AND attnum = ANY (conkey) OR attrelid = confrelid
                    AND attnum = ANY (confkey)) LOOP
        PERFORM snowflake_adopt.do_as(of_key, command);
    END LOOP;
    PERFORM snowflake_adopt.lock_with_partitions(table_oid, true);
    PERFORM snowflake_adopt.do_as(owner,
        format('DROP TRIGGER IF EXISTS "~snowflake_adopt" ON %s', table_oid::regclass));
    PERFORM snowflake_adopt.do_as(owner,
        (SELECT format('ALTER TABLE %s %s', table_oid::regclass,
            string_agg(format('DROP COLUMN IF EXISTS %I', beside), ', '))
        FROM snowflake_adopt.beside WHERE relation = table_oid));
    -- If somebody calls run() or finish() before all is undone, the work begins again.
    DELETE FROM snowflake_adopt.copying c USING snowflake_adopt.beside b, snowflake_adopt.leaves(b.migration) l
        WHERE b.relation = table_oid AND l.root = table_oid AND c.relation = l.leaf;
    UPDATE snowflake_adopt.beside SET is_analyzed = false WHERE relation = table_oid;
END
$$;
COMMENT ON FUNCTION snowflake_adopt.remove_columns(oid) IS
    'not to be called: removes the second columns of a table, with all that belongs to them';
