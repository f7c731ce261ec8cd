-- Adopting online: second columns, which a trigger keeps equal to the first ones

CREATE FUNCTION snowflake_adopt.copy_columns() RETURNS trigger
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_adopt_copy_wrapper';
COMMENT ON FUNCTION snowflake_adopt.copy_columns() IS
    'trigger of a migration: copies columns into the columns beside them, which its arguments name in pairs';

-- Who waits for a lock of ours gets it after a quarter of a second. Autovacuum makes room for it after 20 ms, and it is this
-- transaction that a deadlock ends, since nobody else's looks for one so soon.
CREATE FUNCTION snowflake_adopt.wait_briefly_for_locks() RETURNS void
    LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT set_config('lock_timeout', '250ms', true), set_config('deadlock_timeout', '20ms', true)
$$;
COMMENT ON FUNCTION snowflake_adopt.wait_briefly_for_locks() IS
    'not to be called: for this transaction, lock_timeout and deadlock_timeout so short that nobody waits for it long';

CREATE FUNCTION snowflake_adopt.columns_to_do(migration regclass) RETURNS SETOF text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('SELECT snowflake_adopt.add_columns(%s)', b.relation::oid) FROM snowflake_adopt.beside b
    WHERE b.migration = columns_to_do.migration AND NOT EXISTS (SELECT FROM pg_trigger t WHERE tgrelid = b.relation
        AND tgfoid = 'snowflake_adopt.copy_columns'::regproc AND tgenabled = 'A')
    ORDER BY b.relation
$$;
COMMENT ON FUNCTION snowflake_adopt.columns_to_do(regclass) IS
    'not to be called: the commands that add the columns and triggers of a migration which are missing';

CREATE FUNCTION snowflake_adopt.add_columns(table_oid oid) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    added text;
    differs text;
    pairs text;
BEGIN
    SELECT string_agg(format('ADD COLUMN %I bigint', beside), ', '), string_agg(format('NEW.%I IS DISTINCT FROM NEW.%I', beside, column_name), ' OR '),
        string_agg(format('%L, %L', column_name, beside), ', ')
        INTO added, differs, pairs FROM snowflake_adopt.beside WHERE relation = table_oid;
    PERFORM snowflake_adopt.wait_briefly_for_locks();
    EXECUTE format('ALTER TABLE %s %s', table_oid::regclass, added);
    -- Triggers run in the order of their names, and this one must run after those that change a key.
    EXECUTE format('CREATE TRIGGER "~snowflake_adopt" BEFORE INSERT OR UPDATE ON %s FOR EACH ROW WHEN (%s)
        EXECUTE FUNCTION snowflake_adopt.copy_columns(%s)', table_oid::regclass, differs, pairs);
    -- Also for rows that logical replication applies.
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER "~snowflake_adopt"', table_oid::regclass);
END
$$;
COMMENT ON FUNCTION snowflake_adopt.add_columns(oid) IS
    'not to be called: adds columns beside the narrow ones of a table, and the trigger that keeps them equal';
