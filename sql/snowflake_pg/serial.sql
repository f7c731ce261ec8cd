-- Serial and identity columns of new tables

-- With the rights of who runs CREATE TABLE or ALTER TABLE, which must not fail for this. search_path is fixed, so that names
-- show their schemas.

-- Before a foreign key is added. ALTER TABLE also rewrites children, and checks keys of tables that refer to this one: all must be
-- empty and of one owner, since a CHECK or an index can call functions of the owner.
CREATE FUNCTION snowflake_widen(relation regclass, columns text[]) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ours text := (SELECT format('%I', nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg');
    name name := (SELECT relname FROM pg_class WHERE oid = relation);
    owner regrole;
    schema regnamespace;
    narrow record;
    commands text[] := '{}';
    reason text;
    command text;
    column_name text;
BEGIN
    SELECT relowner, relnamespace INTO owner, schema FROM pg_class WHERE oid = relation;
    IF NOT pg_has_role(owner, 'USAGE') THEN
        RETURN;  -- ALTER TABLE will refuse it.
    END IF;
    -- These columns, and what refers to them.
    FOR narrow IN
        WITH RECURSIVE wide(rel, num) AS (
            SELECT attrelid, attnum FROM pg_attribute WHERE attrelid = relation AND attname::text = ANY (columns)
            UNION
            SELECT conrelid, k.own FROM wide JOIN pg_constraint ON contype = 'f' AND confrelid = rel
            CROSS JOIN LATERAL unnest(conkey, confkey) k(own, other) WHERE k.other = num),
        members(rel, member) AS (
            SELECT rel, rel FROM wide
            UNION
            SELECT rel, inhrelid FROM members JOIN pg_inherits ON inhparent = member)
        SELECT rel::regclass,
            (SELECT string_agg(format('ALTER COLUMN %I TYPE bigint', attname), ', ' ORDER BY attnum)
                FROM wide JOIN pg_attribute ON attrelid = wide.rel AND attnum = num
                WHERE wide.rel = of_rel.rel AND atttypid IN ('smallint'::regtype, 'integer'::regtype)) AS actions,
            (SELECT CASE
                WHEN sum(pg_relation_size(member)) > 0 THEN format('%s is not empty', of_rel.rel::regclass)
                WHEN count(*) FILTER (WHERE relowner <> owner) > 0 THEN format('%s or a child of it has another owner', of_rel.rel::regclass)
                WHEN count(*) FILTER (WHERE relnamespace <> schema) > 0 THEN format('%s or a child of it is in another schema', of_rel.rel::regclass)
                END FROM members JOIN pg_class ON oid = member WHERE members.rel = of_rel.rel) AS reason
        FROM (SELECT DISTINCT rel FROM wide) of_rel ORDER BY rel <> relation
    LOOP
        reason := coalesce(reason, narrow.reason);
        commands := commands || (format('ALTER TABLE %s ', narrow.rel) || narrow.actions);
    END LOOP;
    IF reason IS NULL THEN
        BEGIN
            FOREACH command IN ARRAY array_remove(commands, NULL) LOOP
                EXECUTE format('SELECT %s.snowflake_run_as($1, $2)', ours) USING owner, command;
            END LOOP;
        EXCEPTION WHEN OTHERS THEN
            reason := SQLERRM;
        END;
    END IF;
    FOREACH column_name IN ARRAY columns LOOP
        IF reason IS NULL THEN
            RAISE NOTICE USING MESSAGE = format('column "%s" of table "%s" becomes bigint', column_name, name),
                DETAIL = 'It refers to a bigint.';
        ELSE
            RAISE WARNING USING MESSAGE = format('column "%s" of table "%s" is narrower than what it refers to', column_name, name),
                DETAIL = format('It remains as it is: %s.', reason),
                HINT = 'Make it a bigint, and what refers to it, before rows refer to new Snowflake IDs.';
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION snowflake_widen(regclass, text[]) IS
    'not to be called: ALTER TABLE calls it, where snowflake_pg.serial_schemas is set';

-- After CREATE TABLE, for columns that LIKE has copied: all but those that the statement declares.
CREATE FUNCTION snowflake_finish_table(relation regclass, declared text[]) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ours text := (SELECT format('%I', nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg');
    name name := (SELECT relname FROM pg_class WHERE oid = relation);
    copied record;
    reason text;
BEGIN
    FOR copied IN
        SELECT attname, CASE
            -- The copy is to be as the original is, and a change of the type could call code of the original's owner.
            WHEN atttypid <> 'bigint'::regtype THEN format('LIKE has copied its type, which is %s.', atttypid::regtype)
            WHEN (seqstart, seqincrement, seqmin, seqmax, seqcycle) <> (1, 1, 1, 9223372036854775807, false) THEN
                'LIKE has copied the options of its identity.' END AS reason
        FROM pg_attribute JOIN pg_depend d ON refobjid = attrelid AND refobjsubid = attnum AND deptype = 'i'
            AND d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
        JOIN pg_sequence ON seqrelid = d.objid
        WHERE attrelid = relation AND attidentity <> '' AND attinhcount = 0 AND attname::text <> ALL (declared)
        ORDER BY attnum
    LOOP
        reason := copied.reason;
        IF reason IS NULL THEN
            BEGIN
                EXECUTE format('ALTER TABLE %s ALTER COLUMN %I DROP IDENTITY, ALTER COLUMN %I SET DEFAULT %s.snowflake_id()',
                    relation, copied.attname, copied.attname, ours);
                RAISE NOTICE 'column "%" of table "%" gets Snowflake IDs', copied.attname, name;
                CONTINUE;
            EXCEPTION WHEN OTHERS THEN
                reason := SQLERRM || '.';
            END;
        END IF;
        RAISE NOTICE USING MESSAGE = format('column "%s" of table "%s" is numbered by a sequence', copied.attname, name),
            DETAIL = reason;
    END LOOP;
END
$$;
COMMENT ON FUNCTION snowflake_finish_table(regclass, text[]) IS
    'not to be called: CREATE TABLE calls it, where snowflake_pg.serial_schemas is set';
