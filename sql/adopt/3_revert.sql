-- The way back from adopted tables

CREATE FUNCTION snowflake_revert_plan(relation regclass, column_name name DEFAULT 'id') RETURNS SETOF snowflake_step
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on SET quote_all_identifiers = off AS $$
DECLARE
    ours text := (SELECT format('%I', nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg');
    owner regrole := (SELECT relowner FROM pg_class WHERE oid = relation);
    is_others boolean := owner <> quote_ident(current_user)::regrole AND pg_has_role(owner, 'MEMBER');
    -- For commands that can call code of the owner, if that is another role.
    run_as text := 'SELECT ' || replace(ours, '%', '%%') || '.snowflake_run_as(%L::pg_catalog.regrole, %L::pg_catalog.text)';
    id pg_attribute;
    old_default text;
    kept regclass;
    identity text;
    increment bigint;
    numbering text;
    next_number bigint;
    -- For a table that has always had Snowflake IDs.
    is_snowflake boolean;
    obstacle text;
    narrow text;
    numbers text;
    command text;
BEGIN
    SELECT * INTO id FROM pg_attribute WHERE attrelid = relation AND attname = column_name AND attnum > 0 AND NOT attisdropped;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_column',
            MESSAGE = format('column "%s" of relation %s does not exist', column_name, relation);
    END IF;
    SELECT pg_get_expr(adbin, adrelid) INTO old_default FROM pg_attrdef WHERE adrelid = relation AND adnum = id.attnum;
    IF old_default IS NULL OR old_default !~ '\msnowflake_(nextval|nextval_tagged|id)\(' THEN
        RETURN QUERY VALUES (1, NULL, format('There is nothing to do: the default is %s.', coalesce(old_default, 'not set')));
        RETURN;
    END IF;
    kept := pg_get_serial_sequence(relation::text, column_name);
    identity := substring(obj_description(kept, 'pg_class') FROM '^snowflake_pg: GENERATED (ALWAYS|BY DEFAULT) AS IDENTITY$');

    IF identity IS NOT NULL THEN
        SELECT seqincrement, concat(format('INCREMENT %s MINVALUE %s MAXVALUE %s CACHE %s', seqincrement, seqmin, seqmax, seqcache),
                CASE WHEN seqcycle THEN ' CYCLE' END)
            INTO increment, numbering FROM pg_sequence WHERE seqrelid = kept;
        command := format('SELECT last_value + is_called::pg_catalog.int4 * %s::pg_catalog.int8 FROM %s', increment, kept);
        EXECUTE CASE WHEN is_others THEN format(run_as, owner, command) ELSE command END INTO next_number;
    ELSIF kept IS NULL THEN
        is_snowflake := id.atttypid IS NOT DISTINCT FROM to_regtype(ours || '.snowflake')::oid;
        WITH RECURSIVE members(member) AS (
            SELECT relation::oid
            UNION
            SELECT inhrelid FROM members JOIN pg_inherits ON inhparent = member),
        in_the_way(what) AS (
            SELECT 'the partition key of ' || member::regclass
            FROM members JOIN pg_partitioned_table ON partrelid = member
            JOIN pg_attribute ON attrelid = member AND attname = column_name AND attnum = ANY (partattrs)
            UNION
            SELECT pg_describe_object(d.classid, d.objid, d.objsubid)
            FROM members JOIN pg_attribute a ON attrelid = member AND attname = column_name
            JOIN pg_depend d ON refclassid = 'pg_class'::regclass AND refobjid = member AND refobjsubid = a.attnum
            LEFT JOIN pg_attrdef f ON d.classid = 'pg_attrdef'::regclass AND f.oid = d.objid
            LEFT JOIN pg_attribute g ON g.attrelid = f.adrelid AND g.attnum = f.adnum
            WHERE g.attgenerated <> '' OR d.classid IN ('pg_policy'::regclass, 'pg_proc'::regclass,
                'pg_publication_rel'::regclass, 'pg_rewrite'::regclass, 'pg_trigger'::regclass))
        SELECT CASE
            WHEN relispartition THEN 'the table is a partition'
            WHEN NOT id.attnotnull THEN 'it can be NULL'
            WHEN id.atttypid IN ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype) THEN NULL
            WHEN NOT is_snowflake OR id.attinhcount > 0 THEN format('it is of type %s', format_type(id.atttypid, id.atttypmod))
            ELSE (SELECT format('it is of type %s, and must remain so for: %s', id.atttypid::regtype, string_agg(what, ', ' ORDER BY what))
                FROM in_the_way HAVING count(*) > 0)
            END
            INTO obstacle FROM pg_class WHERE oid = relation;
        IF obstacle IS NOT NULL THEN
            RETURN QUERY VALUES (0, NULL, concat(
                format('%I of %s cannot become an identity: %s.', column_name, relation, obstacle),
                ' Change that, or set a default of your own, such as nextval() of a sequence above the greatest ID.'));
            RETURN;
        END IF;
        narrow := format('ALTER TABLE %s ALTER COLUMN %I TYPE bigint', relation, column_name);
        numbers := format('SELECT pg_catalog.setval(pg_catalog.pg_get_serial_sequence(%L, %L)::pg_catalog.regclass, '
                'GREATEST(pg_catalog.max(%I), 0::pg_catalog.int8) OPERATOR(pg_catalog.+) 1::pg_catalog.int8, false) FROM %s',
            relation, column_name, column_name, relation);
        IF is_others THEN
            -- mutant: revert-as-owner
            narrow := format(run_as, owner, narrow);
            numbers := format(run_as, owner, numbers);
        END IF;
    END IF;

    RETURN QUERY
    SELECT row_number() OVER (ORDER BY place)::integer, planned.command, planned.note
    FROM (
        VALUES
            (1, 'BEGIN', 'All or nothing, even where psql continues after an error.'),
            (1.1, format('SELECT %s.snowflake_all_or_nothing()', ours), 'Raises an error with ON_ERROR_ROLLBACK, which would commit a part.'),
            (2, 'SET LOCAL lock_timeout = ''500ms''',
                'Below deadlock_timeout, so the plan fails rather than a writer. Run the plan again then.'),
            (3, CASE WHEN kept IS NULL OR identity IS NOT NULL THEN
                    format('ALTER TABLE %s ALTER COLUMN %I DROP DEFAULT', relation, column_name) END,
                'Readers and writers wait until COMMIT.'),
            (4, CASE WHEN identity IS NOT NULL THEN format('DROP SEQUENCE %s', kept) END, 'The identity gets a new one.'),
            (5, CASE WHEN identity IS NOT NULL THEN
                    format('ALTER TABLE %s ALTER COLUMN %I ADD GENERATED %s AS IDENTITY (SEQUENCE NAME %s START %s %s)',
                        relation, column_name, identity, kept, next_number, numbering) END,
                format('New rows are numbered from %s on, below the Snowflake IDs.', next_number)),
            (6, CASE WHEN kept IS NOT NULL AND identity IS NULL THEN
                    format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT pg_catalog.nextval(%L::pg_catalog.regclass)', relation, column_name, kept) END,
                'New rows are numbered from where the sequence stopped, below the Snowflake IDs.'),
            (7, CASE WHEN is_snowflake THEN narrow END,
                'PostgreSQL has no identity of type snowflake. Does not rewrite the table.'),
            (8, CASE WHEN kept IS NULL THEN
                    format('ALTER TABLE %s ALTER COLUMN %I ADD GENERATED BY DEFAULT AS IDENTITY', relation, column_name) END,
                'No sequence belongs to the column. If it had another default before, set that instead.'),
            (9, CASE WHEN kept IS NULL THEN 'SET LOCAL row_security = off' END, 'Raises an error rather than reading a part of the rows.'),
            (10, CASE WHEN kept IS NULL THEN numbers END, 'New rows are numbered from above the greatest ID.'),
            (11, 'COMMIT', 'The column remains a bigint, and all IDs remain.')
    ) planned(place, command, note)
    WHERE planned.command IS NOT NULL;
END
$$;
COMMENT ON FUNCTION snowflake_revert_plan(regclass, name) IS
    'commands for \gexec that give a column back the sequence or the identity that it had before snowflake_adopt_plan(), or else an identity above its greatest ID; changes nothing itself';

CREATE FUNCTION snowflake_revert_schema_plan(schema regnamespace) RETURNS SETOF snowflake_step
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE ROWS 100 SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on SET quote_all_identifiers = off AS $$
DECLARE
    ours text := (SELECT format('%I', nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg');
BEGIN
    RETURN QUERY EXECUTE format($plan$
        WITH issued AS (
            SELECT c.oid::regclass AS relation, attname,
                EXISTS (SELECT FROM pg_constraint WHERE conrelid = c.oid AND contype = 'p' AND attnum = ANY (conkey)) AS is_key
            FROM pg_class c JOIN pg_attribute a ON attrelid = c.oid AND attnum > 0 AND NOT attisdropped AND attinhcount = 0
            JOIN pg_attrdef f ON adrelid = c.oid AND adnum = attnum AND attgenerated = ''
            WHERE relnamespace = $1 AND relkind IN ('r', 'p') AND NOT relispartition
                AND pg_get_expr(adbin, adrelid) ~ '\msnowflake_(nextval|nextval_tagged|id)\('),
        steps(place, relation, attname, nth, command, note) AS (
            SELECT CASE WHEN command IS NULL THEN 2 ELSE 3 END, relation, attname, nth, command, note
            FROM issued CROSS JOIN LATERAL %s.snowflake_revert_plan(relation, attname) WITH ORDINALITY planned(step, command, note, nth)
            WHERE is_key
            UNION ALL
            SELECT 1, relation, attname, 0, NULL,
                format('%%I of %%s has Snowflake IDs, and is not in the primary key: it is not changed.', attname, relation)
            FROM issued WHERE NOT is_key)
        SELECT (row_number() OVER (ORDER BY place, relation::text, attname, nth))::integer, command, note FROM steps $plan$, ours)
        USING schema;
    IF NOT FOUND THEN
        RETURN QUERY VALUES (1, NULL, format('There is nothing to do: no primary key in schema %s has Snowflake IDs.', schema));
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_revert_schema_plan(regnamespace) IS
    'the commands of snowflake_revert_plan() for all primary keys of a schema that have Snowflake IDs, in a transaction for each; changes nothing itself';
