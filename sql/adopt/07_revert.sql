-- The way back from adopted tables

-- PostgreSQL has no identity of type snowflake, so such a column must become bigint first.
CREATE FUNCTION snowflake_adopt.why_no_identity(relation regclass, column_name name) RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    WITH ids AS (
        SELECT member, m.oid, attnum
        FROM snowflake_adopt.members(relation) member JOIN pg_class m ON m.oid = member
        JOIN pg_attribute ON attrelid = member AND attname = column_name),
    in_the_way(what) AS (
        SELECT 'the partition key of ' || member FROM ids JOIN pg_partitioned_table ON partrelid = oid
            AND attnum = ANY (partattrs)
        UNION
        SELECT pg_describe_object(d.classid, d.objid, d.objsubid)
        FROM ids JOIN pg_depend d ON refclassid = 'pg_class'::regclass AND refobjid = ids.oid
            AND refobjsubid = ids.attnum
        LEFT JOIN pg_attrdef f ON d.classid = 'pg_attrdef'::regclass AND f.oid = d.objid
        LEFT JOIN pg_attribute g ON g.attrelid = f.adrelid AND g.attnum = f.adnum
        WHERE g.attgenerated <> '' OR d.classid IN ('pg_policy'::regclass, 'pg_proc'::regclass,
            'pg_publication_rel'::regclass, 'pg_rewrite'::regclass, 'pg_trigger'::regclass))
    SELECT CASE
        WHEN relispartition THEN 'the table is a partition'
        WHEN NOT attnotnull THEN 'it can be NULL'
        WHEN atttypid IN ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype) THEN NULL
        WHEN atttypid IS DISTINCT FROM to_regtype(snowflake_adopt.ids() || '.snowflake')::oid OR attinhcount > 0
            THEN format('it is of type %s', format_type(atttypid, atttypmod))
        ELSE (SELECT format('it is of type %s, and must remain so for: %s', atttypid::regtype,
            string_agg(what, ', ' ORDER BY what))
            FROM in_the_way HAVING count(*) > 0)
        END
    FROM pg_class c JOIN pg_attribute ON attrelid = c.oid AND attname = column_name WHERE c.oid = relation
$$;
COMMENT ON FUNCTION snowflake_adopt.why_no_identity(regclass, name) IS
    'not to be called: why a column cannot become an identity; NULL if it can';

CREATE FUNCTION snowflake_adopt.kept_identity(sequence regclass) RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT substring(obj_description(sequence, 'pg_class')
        FROM '^snowflake_pg: GENERATED (ALWAYS|BY DEFAULT) AS IDENTITY$')
$$;
COMMENT ON FUNCTION snowflake_adopt.kept_identity(regclass) IS
    'not to be called: how a plan found the column of this sequence generated; NULL if by no identity';

CREATE FUNCTION snowflake_adopt.restores_identity(relation regclass, column_name name, kept regclass)
    RETURNS SETOF snowflake_adopt.step
    LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE ROWS 3 SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on SET quote_all_identifiers = off AS $$
    WITH numbering AS (
        SELECT concat(format('INCREMENT %s MINVALUE %s MAXVALUE %s CACHE %s', seqincrement, seqmin, seqmax, seqcache),
                CASE WHEN seqcycle THEN ' CYCLE' END) AS numbering,
            snowflake_adopt.read_as_owner(relowner,
                format('SELECT last_value + is_called::pg_catalog.int4 * %s::pg_catalog.int8 FROM %s', seqincrement,
                    kept)) AS next
        FROM pg_sequence CROSS JOIN pg_class WHERE seqrelid = kept AND oid = relation)
    SELECT 1, format('ALTER TABLE %s ALTER COLUMN %I DROP DEFAULT', relation, column_name),
        'Readers and writers wait until COMMIT.'
    UNION ALL
    SELECT 2, format('DROP SEQUENCE %s', kept), 'The identity gets a new one.'
    UNION ALL
    SELECT 3, format('ALTER TABLE %s ALTER COLUMN %I ADD GENERATED %s AS IDENTITY (SEQUENCE NAME %s START %s %s)',
            relation, column_name, snowflake_adopt.kept_identity(kept), kept, next, numbering),
        format('New rows are numbered from %s on, below the Snowflake IDs.', next)
    FROM numbering
$$;
COMMENT ON FUNCTION snowflake_adopt.restores_identity(regclass, name, regclass) IS
    'not to be called: the commands that make a column an identity again, which continues its kept sequence';

CREATE FUNCTION snowflake_adopt.makes_identity(relation regclass, column_name name) RETURNS SETOF snowflake_adopt.step
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE ROWS 5 SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on SET quote_all_identifiers = off AS $$
    SELECT nth, command, note
    FROM pg_class c JOIN pg_attribute ON attrelid = c.oid AND attname = column_name
    CROSS JOIN LATERAL (VALUES
        (1, format('ALTER TABLE %s ALTER COLUMN %I DROP DEFAULT', relation, column_name),
            'Readers and writers wait until COMMIT.'),
        -- mutant: revert-as-owner
        (2, CASE WHEN atttypid = to_regtype(snowflake_adopt.ids() || '.snowflake') THEN
                snowflake_adopt.as_owner_of(relation, relowner,
                    format('ALTER TABLE %s ALTER COLUMN %I TYPE bigint', relation, column_name)) END,
            'PostgreSQL has no identity of type snowflake. Does not rewrite the table.'),
        (3, format('ALTER TABLE %s ALTER COLUMN %I ADD GENERATED BY DEFAULT AS IDENTITY', relation, column_name),
            'No sequence belongs to the column. If it had another default before, set that instead.'),
        (4, 'SET LOCAL row_security = off', 'Raises an error rather than reading a part of the rows.'),
        (5, snowflake_adopt.as_owner(relowner,
            format('SELECT pg_catalog.setval(pg_catalog.pg_get_serial_sequence(%L, %L)::pg_catalog.regclass, '
                'GREATEST(pg_catalog.max(%I), 0::pg_catalog.int8) OPERATOR(pg_catalog.+) 1::pg_catalog.int8, false) '
                'FROM %s',
            relation, column_name, column_name, relation)),
                'New rows are numbered from above the greatest ID.')) planned(nth, command, note)
    WHERE c.oid = relation AND command IS NOT NULL
$$;
COMMENT ON FUNCTION snowflake_adopt.makes_identity(regclass, name) IS
    'not to be called: the commands that make a column without a sequence an identity above its greatest ID';

CREATE FUNCTION snowflake_adopt.revert_plan_for_caller(relation regclass, column_name name)
    RETURNS SETOF snowflake_adopt.step
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER ROWS 10 SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on SET quote_all_identifiers = off AS $$
DECLARE
    old_default text := snowflake_adopt.default_of(relation, column_name);
    kept regclass;
    obstacle text;
BEGIN
    PERFORM snowflake_adopt.attribute(relation, column_name);
    kept := pg_get_serial_sequence(relation::text, column_name);
    IF NOT snowflake_adopt.issues_ids(relation, column_name) THEN
        RETURN QUERY VALUES (1, NULL,
            format('There is nothing to do: the default is %s.', coalesce(old_default, 'not set')));
        RETURN;
    END IF;
    obstacle := CASE WHEN kept IS NULL THEN snowflake_adopt.why_no_identity(relation, column_name) END;
    IF obstacle IS NOT NULL THEN
        RETURN QUERY VALUES (0, NULL,
            concat(format('%I of %s cannot become an identity: %s.', column_name, relation, obstacle),
            ' Change that, or set a default of your own, such as nextval() of a sequence above the greatest ID.'));
        RETURN;
    END IF;
    RETURN QUERY SELECT 0, NULL::text, why FROM snowflake_adopt.why_no_schema(relation) why
        UNION ALL
        SELECT 0, NULL, why FROM snowflake_adopt.why_overloaded(relation, ARRAY[column_name]) why
        WHERE kept IS NULL AND (snowflake_adopt.attribute(relation, column_name)).atttypid
            = to_regtype(snowflake_adopt.ids() || '.snowflake');
    IF FOUND THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT row_number() OVER (ORDER BY place, nth)::integer, command, note FROM (
        SELECT 1, begins.* FROM snowflake_adopt.begins()
        UNION ALL
        SELECT 2, restores.* FROM snowflake_adopt.restores_identity(relation, column_name, kept) restores
        WHERE snowflake_adopt.kept_identity(kept) IS NOT NULL
        UNION ALL
        SELECT 2, 1, format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT pg_catalog.nextval(%L::pg_catalog.regclass)',
            relation, column_name, kept),
            'New rows are numbered from where the sequence stopped, below the Snowflake IDs.'
        WHERE kept IS NOT NULL AND snowflake_adopt.kept_identity(kept) IS NULL
        UNION ALL
        SELECT 2, makes.* FROM snowflake_adopt.makes_identity(relation, column_name) makes WHERE kept IS NULL
        UNION ALL
        SELECT 3, 1, 'COMMIT', 'The column remains a bigint, and all IDs remain.') planned(place, nth, command, note);
END
$$;
COMMENT ON FUNCTION snowflake_adopt.revert_plan_for_caller(regclass, name) IS
    'not to be called: does what revert_plan() is for';
CREATE FUNCTION snowflake_adopt.revert_plan(relation regclass, column_name name DEFAULT 'id')
    RETURNS SETOF snowflake_adopt.step
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'snowflake_adopt_enter';
COMMENT ON FUNCTION snowflake_adopt.revert_plan(regclass, name) IS
    'commands for \gexec that give a column back the sequence or the identity that it had before plan(), or else an '
    'identity above its greatest ID; changes nothing itself';

CREATE FUNCTION snowflake_adopt.revert_schema_plan_for_caller(schema regnamespace) RETURNS SETOF snowflake_adopt.step
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER ROWS 100 SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on SET quote_all_identifiers = off AS $$
BEGIN
    RETURN QUERY
    WITH adopted AS (
        SELECT * FROM snowflake_adopt.columns_of(schema) JOIN pg_attribute ON attrelid = relation
            AND attname = column_name AND attgenerated = ''
        WHERE snowflake_adopt.issues_ids(relation, column_name))
    SELECT row_number() OVER (ORDER BY place, planned.relation::text, planned.column_name, nth)::integer,
        planned.command, planned.note FROM (
        SELECT 1, relation, column_name, 0, NULL::text,
            format('%I of %s has Snowflake IDs, and is not in the primary key: it is not changed.', column_name,
                relation)
        FROM adopted WHERE NOT is_key
        UNION ALL
        SELECT CASE WHEN command IS NULL THEN 2 ELSE 3 END, relation, column_name, step, command, note
        FROM adopted CROSS JOIN LATERAL snowflake_adopt.revert_plan_for_caller(relation, column_name) WHERE is_key
    ) planned(place, relation, column_name, nth, command, note);
    IF NOT FOUND THEN
        RETURN QUERY VALUES (1, NULL,
            format('There is nothing to do: no primary key in schema %s has Snowflake IDs.', schema));
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_adopt.revert_schema_plan_for_caller(regnamespace) IS
    'not to be called: does what revert_schema_plan() is for';
CREATE FUNCTION snowflake_adopt.revert_schema_plan(schema regnamespace) RETURNS SETOF snowflake_adopt.step
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'snowflake_adopt_enter';
COMMENT ON FUNCTION snowflake_adopt.revert_schema_plan(regnamespace) IS
    'the commands of revert_plan() for all primary keys of a schema that have Snowflake IDs, in a transaction for '
    'each; changes nothing itself';
