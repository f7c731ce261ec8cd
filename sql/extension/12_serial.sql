-- Serial and identity columns of new tables

-- With the rights of who runs CREATE TABLE or ALTER TABLE, which must not fail for this. search_path is fixed, so that names
-- show their schemas.

-- Before a foreign key is added, or a parent. Why the columns remain as they are, or an empty text. ALTER TABLE also rewrites
-- children, and checks keys of tables that refer to this one: all must be empty and of one owner, since a CHECK or an index can
-- call functions of the owner.
CREATE FUNCTION snowflake_widen(relation regclass, columns text[]) RETURNS text
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ours text := (SELECT format('%I', nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg');
    owner regrole;
    schema regnamespace;
    narrow record;
    commands text[] := '{}';
    reason text;
    command text;
BEGIN
    SELECT relowner, relnamespace INTO owner, schema FROM pg_class WHERE oid = relation AND pg_has_role(relowner, 'USAGE');
    IF NOT FOUND THEN
        RETURN 'you do not own it';  -- ALTER TABLE will refuse it.
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
    RETURN coalesce(reason, '');
END
$$;
COMMENT ON FUNCTION snowflake_widen(regclass, text[]) IS
    'not to be called: ALTER TABLE calls it, where snowflake_pg.serial_schemas is set';

-- After CREATE TABLE, for columns that LIKE has copied, with their identity, from these sources: all but those that the statement
-- declares. After ATTACH PARTITION, whose source is the parent.
CREATE FUNCTION snowflake_finish_table(relation regclass, declared text[], sources oid[]) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    id regprocedure := (SELECT format('%I.snowflake_id()', nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg');
    copied record;
    reason text;
BEGIN
    FOR copied IN
        SELECT attrelid::regclass AS rel, relname, attname, 'DROP IDENTITY' AS drops, CASE
            -- The copy is to be as the original is, and a change of the type could call code of the original's owner.
            WHEN atttypid <> 'bigint'::regtype THEN format('LIKE has copied its type, which is %s.', atttypid::regtype)
            WHEN (seqstart, seqincrement, seqmin, seqmax, seqcycle) <> (1, 1, 1, 9223372036854775807, false) THEN
                'LIKE has copied the options of its identity.' END AS reason, attnum
        FROM pg_class c JOIN pg_attribute ON attrelid = c.oid
        JOIN pg_depend d ON refobjid = attrelid AND refobjsubid = attnum AND deptype = 'i'
            AND d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
        JOIN pg_sequence ON seqrelid = d.objid
        WHERE attrelid = relation AND attidentity <> '' AND attinhcount = 0 AND attname::text <> ALL (declared)
        UNION ALL
        -- An original that was made with an identity, and has a default instead.
        SELECT attrelid::regclass, relname, a.attname, NULL, NULL, attnum
        FROM pg_class c JOIN pg_attribute a ON attrelid = c.oid
        WHERE (c.oid = relation OR c.oid IN (SELECT relid FROM pg_partition_tree(relation))) AND relkind IN ('r', 'p')
            AND attnum > 0 AND atttypid = 'bigint'::regtype AND attidentity = '' AND NOT atthasdef AND attname::text <> ALL (declared)
            AND EXISTS (SELECT FROM pg_attribute s JOIN pg_attrdef ON adrelid = s.attrelid AND adnum = s.attnum
                WHERE s.attrelid = ANY (sources) AND s.attname = a.attname AND pg_get_expr(adbin, adrelid) = id::text)
        ORDER BY rel, attnum
    LOOP
        reason := copied.reason;
        IF reason IS NULL THEN
            BEGIN
                EXECUTE format('ALTER TABLE ONLY %s %s ALTER COLUMN %I SET DEFAULT %s', copied.rel,
                    format('ALTER COLUMN %I ', copied.attname) || copied.drops || ',', copied.attname, id);
                RAISE NOTICE 'column "%" of table "%" gets Snowflake IDs', copied.attname, copied.relname;
                CONTINUE;
            EXCEPTION WHEN OTHERS THEN
                reason := SQLERRM || '.';
            END;
        END IF;
        IF copied.drops IS NULL THEN
            RAISE WARNING USING MESSAGE = format('column "%s" of table "%s" gets no Snowflake IDs', copied.attname, copied.relname),
                DETAIL = reason;
        ELSE
            RAISE NOTICE USING MESSAGE = format('column "%s" of table "%s" is numbered by a sequence', copied.attname, copied.relname),
                DETAIL = reason;
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION snowflake_finish_table(regclass, text[], oid[]) IS
    'not to be called: CREATE TABLE and ALTER TABLE call it, where snowflake_pg.serial_schemas is set';
