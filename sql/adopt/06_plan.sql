-- Plans that give columns Snowflake IDs

-- The greatest IDs are those of the columns, in the same order.
CREATE FUNCTION snowflake_adopt.obstacles(relations regclass[], columns name[], at_once boolean, greatest_ids bigint[])
    RETURNS SETOF text
    LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp
        SET quote_all_identifiers = off AS $$
DECLARE
    state text;
BEGIN
    RETURN QUERY SELECT format('%I of %s cannot become bigint: its type is the domain %s.', column_name, relation,
        domain)
        FROM snowflake_adopt.narrow(relations, columns) WHERE domain IS NOT NULL;
    RETURN QUERY SELECT DISTINCT ON (nth, why) why
        FROM snowflake_adopt.rewrites(relations, columns, at_once) CROSS JOIN LATERAL unnest(narrow) col
        CROSS JOIN LATERAL snowflake_adopt.why_not_bigint(relation, col) why ORDER BY nth, why;
    RETURN QUERY SELECT DISTINCT why FROM snowflake_adopt.rewrites(relations, columns, at_once)
        CROSS JOIN LATERAL snowflake_adopt.why_overloaded(relation, narrow) why;
    RETURN QUERY SELECT DISTINCT why FROM (
            SELECT unnest(relations)
            UNION
            SELECT relation FROM snowflake_adopt.rewrites(relations, columns, at_once)) t(rel)
        CROSS JOIN LATERAL snowflake_adopt.why_no_schema(rel) why;
    RETURN QUERY SELECT format('%s cannot be dropped and recreated: %s.', pg_describe_object(class, object, 0),
        obstacle)
        FROM snowflake_adopt.dependents(relations, columns, at_once) WHERE obstacle IS NOT NULL ORDER BY transaction,
            nth;
    RETURN QUERY SELECT DISTINCT format('%s has the name of a sequence to be made: rename it.', k.oid::regclass)
        FROM unnest(relations, columns) u(rel, col) JOIN pg_attribute ON attrelid = rel AND attname = col
            AND attidentity <> ''
        JOIN pg_class s ON s.oid = snowflake_adopt.sequence_of(rel, col)
            JOIN pg_class k ON k.relnamespace = s.relnamespace AND k.relname = 'snowflake_kept';
    SELECT s.state INTO state FROM snowflake_adopt.status() s(state text);
    IF state NOT IN ('ready', 'idle', 'waiting') THEN
        RETURN NEXT format('This server issues no IDs at present: its state is %s.', state);
    END IF;
    RETURN QUERY SELECT format('%I of %s is a generated column.', col, rel)
        FROM unnest(relations, columns) u(rel, col) JOIN pg_attribute ON attrelid = rel AND attname = col
            WHERE attgenerated <> '';
    RETURN QUERY SELECT concat(format('The greatest ID, %s, is too far ahead of new ones.', id),
            ' If these are IDs of another layout, set snowflake_pg.layout to that.',
            ' If they are not Snowflake IDs, give these rows lower numbers, or add another column.')
        FROM unnest(greatest_ids) id
        WHERE id > snowflake_adopt.lowest_id(clock_timestamp()
            + coalesce(current_setting('snowflake_pg.max_forward_jump', true), '1h')::interval);
END
$$;
COMMENT ON FUNCTION snowflake_adopt.obstacles(regclass[], name[], boolean, bigint[]) IS
    'not to be called: what stands in the way of a plan';

-- What a plan does not change, although the new IDs may not fit there.
CREATE FUNCTION snowflake_adopt.remarks(relations regclass[], columns name[]) RETURNS SETOF text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on SET quote_all_identifiers = off AS $$
    WITH narrow AS (SELECT * FROM snowflake_adopt.narrow(relations, columns)),
    tables AS (SELECT rel, relname FROM unnest(relations) rel JOIN pg_class t ON t.oid = rel)
    SELECT remark FROM (
        SELECT 1 AS place, format('%s is published by %s: make the column a bigint on the subscribers first.', rel,
            string_agg(quote_ident(pubname), ', ' ORDER BY pubname)) AS remark
        FROM (SELECT DISTINCT relation AS rel FROM narrow) narrow JOIN pg_class ON oid = rel
        JOIN pg_namespace n ON n.oid = relnamespace JOIN pg_publication_tables ON schemaname = nspname
            AND tablename = relname
        GROUP BY rel
        UNION ALL
        SELECT 2, format('%s of %s is of type %s, and may reference %s without a foreign key: it is not changed.',
            quote_ident(a.attname),
            c.oid::regclass, format_type(a.atttypid, NULL), rel)
        FROM tables t JOIN pg_attribute a ON a.attname IN (t.relname, t.relname || '_id',
            regexp_replace(t.relname, 's$', '') || '_id',
            regexp_replace(t.relname, 'ies$', 'y') || '_id', regexp_replace(t.relname, 'es$', '') || '_id')
        JOIN pg_class c ON c.oid = a.attrelid
        WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND NOT a.attisdropped
            AND a.atttypid IN ('smallint'::regtype, 'integer'::regtype)
            AND NOT EXISTS (SELECT FROM narrow WHERE relation = c.oid AND column_name = a.attname)
            AND NOT EXISTS (SELECT FROM pg_constraint WHERE contype = 'f' AND conrelid = c.oid
                AND a.attnum = ANY (conkey))
        UNION ALL
        SELECT 3, format('%s has a parameter or a result of 32 bits or less, and mentions %s: check whether these are '
            'its IDs.', p.oid::regprocedure,
            string_agg(rel::text, ', ' ORDER BY rel::text))
        FROM tables t JOIN pg_proc p ON strpos(CASE WHEN prosqlbody IS NULL THEN prosrc
            ELSE pg_get_function_sqlbody(p.oid) END, t.relname) > 0
            AND CASE WHEN prosqlbody IS NULL THEN prosrc ELSE pg_get_function_sqlbody(p.oid) END
                ~ ('\m' || regexp_replace(t.relname, '\W', '\\\&', 'g') || '\M')
        WHERE p.pronamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
            AND ARRAY['smallint'::regtype, 'integer'::regtype]::oid[]
                && (p.proargtypes::oid[] || p.prorettype || p.proallargtypes)
            AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = p.oid
                AND deptype = 'e')
        GROUP BY p.oid) remarked
    ORDER BY place, remark
$$;
COMMENT ON FUNCTION snowflake_adopt.remarks(regclass[], name[]) IS
    'not to be called: what a plan leaves unchanged, and where new IDs may not fit';

-- PostgreSQL drops the sequence of an identity with the identity.
CREATE FUNCTION snowflake_adopt.keeps_identity(relation regclass, column_name name) RETURNS SETOF snowflake_adopt.step
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE ROWS 7 SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on SET quote_all_identifiers = off AS $$
    WITH identity AS (
        SELECT t.relowner AS owner, attidentity, s.oid::regclass AS sequence, s.relname AS name,
            format('%I.snowflake_kept', nspname) AS kept,
            -- Bounds that are the defaults of a type become the defaults of bigint.
            concat(format('INCREMENT %s', seqincrement),
                CASE WHEN seqmin NOT IN (1, -32768, -2147483648, -9223372036854775808)
                    THEN format(' MINVALUE %s', seqmin) END,
                CASE WHEN seqmax NOT IN (-1, 32767, 2147483647, 9223372036854775807)
                    THEN format(' MAXVALUE %s', seqmax) END,
                format(' CACHE %s', seqcache), CASE WHEN seqcycle THEN ' CYCLE' END,
                format(' START %s', seqstart)) AS numbering
        FROM pg_class t JOIN pg_attribute ON attrelid = t.oid AND attname = column_name AND attidentity <> ''
        JOIN pg_sequence ON seqrelid = snowflake_adopt.sequence_of(relation, column_name)
        JOIN pg_class s ON s.oid = seqrelid JOIN pg_namespace n ON n.oid = s.relnamespace
        WHERE t.oid = relation)
    SELECT nth, command, note
    FROM identity CROSS JOIN LATERAL (VALUES
        (1, format('CREATE SEQUENCE %s AS bigint %s', kept, numbering),
            'Keeps the number of the identity for snowflake_adopt.revert_plan().'),
        (2, CASE WHEN snowflake_adopt.is_other(owner)
            THEN format('ALTER SEQUENCE %s OWNER TO %s', kept, owner::regrole) END,
            'A sequence can only belong to a table of the same owner.'),
        -- As the owner, who could replace the sequence by a view.
        (3, snowflake_adopt.as_owner(owner,
            format('SELECT pg_catalog.setval(%L::pg_catalog.regclass, last_value, is_called) FROM %s', kept, sequence)),
            'Nobody can take a number meanwhile.'),
        (4, format('ALTER TABLE %s ALTER COLUMN %I DROP IDENTITY', relation, column_name),
            format('Drops the sequence %s.', sequence)),
        (5, format('ALTER SEQUENCE %s RENAME TO %I', kept, name), 'Restores its name.'),
        (6, format('ALTER SEQUENCE %s OWNED BY %s.%I', sequence, relation, column_name), 'Dropped with the column.'),
        (7, format('COMMENT ON SEQUENCE %s IS ''snowflake_pg: GENERATED %s AS IDENTITY''', sequence,
            CASE attidentity WHEN 'a' THEN 'ALWAYS' ELSE 'BY DEFAULT' END),
                'For snowflake_adopt.revert_plan().')) planned(nth, command, note)
    WHERE command IS NOT NULL
$$;
COMMENT ON FUNCTION snowflake_adopt.keeps_identity(regclass, name) IS
    'not to be called: the commands that drop the identity of a column, and keep its sequence; none without an '
    'identity';

CREATE FUNCTION snowflake_adopt.sets_default(relation regclass, column_name name) RETURNS SETOF snowflake_adopt.step
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE ROWS 8 SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on SET quote_all_identifiers = off AS $$
    SELECT * FROM snowflake_adopt.keeps_identity(relation, column_name)
    UNION ALL
    SELECT 8, format('ALTER SEQUENCE %s AS bigint', seqrelid::regclass), 'Kept for snowflake_adopt.revert_plan().'
    FROM pg_sequence JOIN pg_class s ON s.oid = seqrelid JOIN pg_class t ON t.oid = relation AND t.relowner = s.relowner
    JOIN pg_attribute ON attrelid = relation AND attname = column_name AND attidentity = ''
    WHERE seqrelid = snowflake_adopt.sequence_of(relation, column_name) AND seqtypid <> 'bigint'::regtype
    UNION ALL
    SELECT 9, format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s.snowflake_nextval()', relation, column_name,
        snowflake_adopt.ids()),
        concat('New rows get Snowflake IDs. lastval() and currval() do not know them: use RETURNING.',
            ' The default was ' || snowflake_adopt.default_of(relation, column_name) || '.',
            -- Constraints that could refuse the new IDs.
            ' They must pass ' || (SELECT string_agg(pg_get_constraintdef(oid), ', ' ORDER BY conname)
                FROM pg_constraint WHERE conrelid = relation AND contype = 'c' AND attnum = ANY (conkey)) || '.',
            CASE WHEN EXISTS (SELECT FROM pg_partitioned_table WHERE partrelid = relation AND attnum = ANY (partattrs))
                THEN ' There must be partitions for them.' END)
    -- Whoever has a default that issues IDs, such as those of a shard, keeps it.
    -- mutant: plan-keeps-default
    FROM pg_attribute WHERE attrelid = relation AND attname = column_name
        AND NOT snowflake_adopt.issues_ids(relation, column_name)
$$;
COMMENT ON FUNCTION snowflake_adopt.sets_default(regclass, name) IS
    'not to be called: the commands that give a column the default snowflake_nextval() unless its default issues IDs, '
    'and keep what numbered it';

CREATE FUNCTION snowflake_adopt.widens(
    relations regclass[], columns name[], at_once boolean,
    OUT transaction integer, OUT place integer, OUT nth bigint, OUT command text, OUT note text)
    RETURNS SETOF record
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on SET quote_all_identifiers = off AS $$
    SELECT transaction, 6, 0::bigint, format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', concat_ws(', ', relation,
            (SELECT string_agg(DISTINCT joined::regclass::text, ', ') FROM pg_constraint
                CROSS JOIN LATERAL (VALUES (conrelid), (confrelid)) j(joined)
            WHERE contype = 'f' AND relation IN (conrelid, confrelid) AND joined <> relation
                AND NOT (SELECT relispartition FROM pg_class WHERE oid = joined)))),
        'With the tables that foreign keys join to it. Readers and writers of them wait until COMMIT.'
    FROM snowflake_adopt.rewrites(relations, columns, at_once) WHERE NOT at_once
    UNION ALL
    -- mutant: widen-as-owner
    SELECT transaction, 7, nth,
        snowflake_adopt.as_owner_of(relation, owner, format('ALTER TABLE %s %s', relation, actions)),
        concat(format('Rewrites %s with its indexes, %s now. Readers and writers of it wait until COMMIT.', relation,
            size),
            CASE WHEN snowflake_adopt.is_other(owner)
                THEN format(' Runs as its owner, %s, whose code it can call.', owner::regrole) END)
    FROM snowflake_adopt.rewrites(relations, columns, at_once)
    CROSS JOIN LATERAL (SELECT relowner FROM pg_class WHERE oid = relation) c(owner)
    CROSS JOIN LATERAL (SELECT string_agg(format('ALTER COLUMN %I TYPE bigint', col), ', ')
        FROM unnest(narrow) col) a(actions)
    CROSS JOIN LATERAL (SELECT pg_size_pretty(sum(pg_total_relation_size(member)))
        FROM snowflake_adopt.members(relation) member) s(size)
$$;
COMMENT ON FUNCTION snowflake_adopt.widens(regclass[], name[], boolean) IS
    'not to be called: the commands that make columns bigint, and the locks of those in a transaction of their own';

-- Which only superusers may do, and whoever they have granted it to.
CREATE FUNCTION snowflake_adopt.advance_past_for_caller(past bigint) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- mutant: advance-of-others
    IF NOT EXISTS (SELECT FROM pg_extension JOIN pg_proc p ON pronamespace = extnamespace
        WHERE extname = 'snowflake_pg' AND proname = 'snowflake_advance'
        AND oidvectortypes(proargtypes) = 'bigint, boolean'
            AND has_function_privilege(snowflake_adopt.caller(), p.oid, 'EXECUTE'))
    THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'permission denied for function snowflake_advance';
    END IF;
    PERFORM snowflake_adopt.advance(past, false);
END
$$;
COMMENT ON FUNCTION snowflake_adopt.advance_past_for_caller(bigint) IS
    'not to be called: does what advance_past() is for';
CREATE FUNCTION snowflake_adopt.advance_past(past bigint) RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_adopt_enter';
COMMENT ON FUNCTION snowflake_adopt.advance_past(bigint) IS
    'not to be called: for plans, makes all new IDs greater than this one, if the caller may call snowflake_advance()';

-- Each part has the transaction of its commands and their place in it, since other parts come between. The last
-- transaction sets the defaults, and is the only one if the plan does all at once.
CREATE FUNCTION snowflake_adopt.commands(relations regclass[], columns name[], at_once boolean, greatest_ids bigint[])
    RETURNS SETOF snowflake_adopt.step
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on SET quote_all_identifiers = off AS $$
    WITH rewrites AS (SELECT relation, relation = ANY (relations) AS is_named
        FROM snowflake_adopt.rewrites(relations, columns, at_once)),
    last(transaction) AS (SELECT CASE WHEN at_once THEN 1 ELSE count(*)::integer + 1 END FROM rewrites)
    SELECT row_number() OVER (ORDER BY transaction, place, nth)::integer, command, note
    FROM (
        SELECT 0, 0, nth, NULL, remark FROM snowflake_adopt.remarks(relations, columns) WITH ORDINALITY r(remark, nth)
        UNION ALL
        SELECT nth, 1, step, command, note FROM last CROSS JOIN generate_series(1, transaction) nth
            CROSS JOIN snowflake_adopt.begins()
        UNION ALL
        -- mutant: plan-superuser-last
        SELECT transaction, 3, 0, format('SELECT snowflake_adopt.advance_past(%s)', max(id)),
            'There are IDs from elsewhere that are greater than new ones would be. Only for superusers.'
        FROM last CROSS JOIN unnest(greatest_ids) id WHERE id >= snowflake_adopt.lowest_id(clock_timestamp())
            GROUP BY transaction
        UNION ALL
        SELECT * FROM snowflake_adopt.recreates(relations, columns, at_once)
        UNION ALL
        -- mutant: plan-locks-at-once
        SELECT transaction, 6, 0,
            format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', concat_ws(', ', array_to_string(relations, ', '),
                (SELECT string_agg(relation::text, ', ' ORDER BY relation::text) FROM rewrites WHERE at_once
                    AND NOT is_named))),
            'Earlier locks are only on objects that read these tables.' FROM last
        UNION ALL
        SELECT * FROM snowflake_adopt.widens(relations, columns, at_once)
        UNION ALL
        SELECT transaction, 8, 10 * nth + step, command, note FROM last
            CROSS JOIN unnest(relations, columns) WITH ORDINALITY u(rel, col, nth)
        CROSS JOIN LATERAL snowflake_adopt.sets_default(rel, col)
        UNION ALL
        -- mutant: plan-new-key
        SELECT transaction, 12, 0, format('SELECT snowflake_adopt.must_be_bigint(%L, %L)', relations, columns),
            'Raises an error if a column that references them is not a bigint.' FROM last
        UNION ALL
        SELECT nth, 13, 0, 'COMMIT', 'Releases all locks.' FROM last CROSS JOIN generate_series(1, transaction) nth
    ) planned(transaction, place, nth, command, note)
    ORDER BY 1
$$;
COMMENT ON FUNCTION snowflake_adopt.commands(regclass[], name[], boolean, bigint[]) IS
    'not to be called: the remarks and the commands of a plan that nothing stands in the way of';

CREATE FUNCTION snowflake_adopt.make_plan(relations regclass[], columns name[], at_once boolean)
    RETURNS SETOF snowflake_adopt.step
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp
    -- Compiling the queries takes longer than they do.
    SET jit = off AS $$
DECLARE
    greatest_ids bigint[] := ARRAY(SELECT snowflake_adopt.greatest_id(rel, col)
        FROM unnest(relations, columns) u(rel, col));
BEGIN
    RETURN QUERY SELECT 0, NULL::text, note
        FROM snowflake_adopt.obstacles(relations, columns, at_once, greatest_ids) note;
    IF NOT FOUND THEN
        RETURN QUERY SELECT * FROM snowflake_adopt.commands(relations, columns, at_once, greatest_ids);
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_adopt.make_plan(regclass[], name[], boolean) IS
    'not to be called: the plan for these columns of these tables, which all contain numbers: in one transaction, or '
    'in one for each table that must be rewritten and a last one';

CREATE FUNCTION snowflake_adopt.must_be_adoptable(relation regclass, column_name name) RETURNS void
    LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    id pg_attribute;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class WHERE oid = relation AND relkind IN ('r', 'p') AND NOT relispartition) THEN
        RAISE EXCEPTION USING ERRCODE = 'wrong_object_type',
            MESSAGE = format('%s is not a table, or is a partition', relation), HINT = 'Name the table itself.';
    END IF;
    id := snowflake_adopt.attribute(relation, column_name);
    IF NOT snowflake_adopt.issues_ids(relation, column_name)
       AND id.atttypid NOT IN ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype)
       AND id.atttypid IS DISTINCT FROM to_regtype(snowflake_adopt.ids() || '.snowflake')::oid THEN
        RAISE EXCEPTION USING ERRCODE = 'datatype_mismatch',
            MESSAGE = format('column "%s" of relation %s must be of type smallint, integer, bigint or snowflake',
                column_name, relation),
            DETAIL = format('Its type is %s.', format_type(id.atttypid, id.atttypmod)),
            HINT = CASE id.atttypid WHEN 'uuid'::regtype THEN
                format('A uuid needs no plan: ALTER TABLE %s ALTER COLUMN %I SET DEFAULT '
                    '%3$s.snowflake_to_uuid(%3$s.snowflake_nextval()).',
                    relation, column_name, snowflake_adopt.ids())
                ELSE 'Add a column of type bigint.' END;
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_adopt.must_be_adoptable(regclass, name) IS
    'not to be called: an error unless this is a column of a table whose type can have Snowflake IDs';

CREATE FUNCTION snowflake_adopt.plan_for_caller(relation regclass, column_name name) RETURNS SETOF snowflake_adopt.step
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER ROWS 10 SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on SET quote_all_identifiers = off AS $$
DECLARE
    old_default text := snowflake_adopt.default_of(relation, column_name);
BEGIN
    PERFORM snowflake_adopt.must_be_adoptable(relation, column_name);
    -- mutant: plan-default-fits
    IF snowflake_adopt.issues_ids(relation, column_name)
        AND snowflake_adopt.narrow_list(ARRAY[relation], ARRAY[column_name]) IS NULL THEN
        RETURN QUERY VALUES (1, NULL, format('There is nothing to do: the default is %s.', old_default));
        RETURN;
    END IF;
    RETURN QUERY SELECT * FROM snowflake_adopt.make_plan(ARRAY[relation], ARRAY[column_name], true);
END
$$;
COMMENT ON FUNCTION snowflake_adopt.plan_for_caller(regclass, name) IS 'not to be called: does what plan() is for';
CREATE FUNCTION snowflake_adopt.plan(relation regclass, column_name name DEFAULT 'id')
    RETURNS SETOF snowflake_adopt.step
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'snowflake_adopt_enter';
COMMENT ON FUNCTION snowflake_adopt.plan(regclass, name) IS
    'commands for \gexec that give a column the default snowflake_nextval(), and make it and the columns that '
    'reference it bigint; changes nothing itself';

CREATE FUNCTION snowflake_adopt.numbered(
    schema regnamespace, widen boolean, OUT relation regclass, OUT column_name name, OUT is_key boolean,
    OUT remark text)
    RETURNS SETOF record
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp
        SET quote_all_identifiers = off AS $$
    SELECT relation, column_name, is_key, CASE
        WHEN NOT is_key THEN format('%I of %s is numbered by a sequence, and not in the primary key: it is not '
            'changed.', column_name, relation)
        WHEN NOT widen THEN
            format('%I of %s keeps its numbers, since widen is false. Narrower than bigint: ', column_name, relation)
                || snowflake_adopt.narrow_list(ARRAY[relation], ARRAY[column_name]) || '.' END
    FROM snowflake_adopt.columns_of(schema) JOIN pg_attribute ON attrelid = relation AND attname = column_name
    LEFT JOIN pg_attrdef f ON adrelid = relation AND adnum = attnum
    WHERE atttypid IN ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype)
        AND (attidentity <> '' OR EXISTS (SELECT FROM pg_depend d JOIN pg_class s ON s.oid = refobjid
            AND s.relkind = 'S'
            WHERE d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid AND refclassid = 'pg_class'::regclass))
        AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = relation
            AND deptype = 'e')
    ORDER BY NOT is_key, relation::text, column_name
$$;
COMMENT ON FUNCTION snowflake_adopt.numbered(regnamespace, boolean) IS
    'not to be called: the columns of a schema that sequences or identities number, and why a plan does not change one';

CREATE FUNCTION snowflake_adopt.schema_plan_for_caller(schema regnamespace, widen boolean)
    RETURNS SETOF snowflake_adopt.step
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER ROWS 100 SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on SET quote_all_identifiers = off AS $$
DECLARE
    relations regclass[];
    columns name[];
    remarks text[];
    has_keys boolean;
BEGIN
    SELECT coalesce(array_agg(relation) FILTER (WHERE remark IS NULL), '{}'),
        coalesce(array_agg(column_name) FILTER (WHERE remark IS NULL), '{}'),
        array_remove(array_agg(remark), NULL), coalesce(bool_or(is_key), false)
        INTO relations, columns, remarks, has_keys FROM snowflake_adopt.numbered(schema, widen);
    RETURN QUERY SELECT 0, NULL::text, concat(format('These columns become bigint: %s.', narrow),
            ' The application must declare them with 64 bits before the plan runs.',
            ' To leave their keys unchanged, make a plan without widen.')
        FROM snowflake_adopt.narrow_list(relations, columns) narrow WHERE narrow IS NOT NULL;
    RETURN QUERY SELECT 0, NULL::text, remark FROM unnest(remarks) remark;
    IF NOT has_keys THEN
        RETURN QUERY VALUES (1, NULL,
            format('There is nothing to do: no primary key in schema %s is numbered by a sequence.', schema));
    ELSIF relations <> '{}' THEN
        RETURN QUERY SELECT * FROM snowflake_adopt.make_plan(relations, columns, false);
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_adopt.schema_plan_for_caller(regnamespace, boolean) IS
    'not to be called: does what schema_plan() is for';
CREATE FUNCTION snowflake_adopt.schema_plan(schema regnamespace, widen boolean DEFAULT false)
    RETURNS SETOF snowflake_adopt.step
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'snowflake_adopt_enter';
COMMENT ON FUNCTION snowflake_adopt.schema_plan(regnamespace, boolean) IS
    'the commands of plan() for all primary keys of a schema that sequences or identities number, in a transaction for '
    'each table that must be rewritten; leaves narrow keys as they are, unless widen is true; changes nothing itself';
