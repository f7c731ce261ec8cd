-- Adopting existing tables
--
-- Plans for \gexec, made with the caller's rights. Making one changes nothing. search_path is fixed, so that names show their schemas.

CREATE TYPE snowflake_step AS (step integer, command text, note text);
COMMENT ON TYPE snowflake_step IS 'row of snowflake_adopt_plan(), snowflake_revert_plan(), and their forms for a schema';
COMMENT ON COLUMN snowflake_step.command IS 'to be run, in order; NULL for a remark or an obstacle, or if there is nothing to do';
COMMENT ON COLUMN snowflake_step.note IS 'what the command does, rewrites and locks; or what the plan does not change, or what prevents it';

CREATE FUNCTION snowflake_run_as(role regrole, command text) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_run_as_wrapper';
COMMENT ON FUNCTION snowflake_run_as(regrole, text) IS
    'run a command as a role that you can become by SET ROLE, as plans do for tables of other owners; code that the command calls cannot switch back; returns its first value if that is a bigint';

CREATE FUNCTION snowflake_all_or_nothing() RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_all_or_nothing_wrapper';
COMMENT ON FUNCTION snowflake_all_or_nothing() IS
    'not to be called: for plans, an error also at COMMIT if the client sets a savepoint before each command';

-- These columns, and the columns that reference them by foreign keys.
CREATE FUNCTION snowflake_referring(relations regclass[], columns name[], OUT relation oid, OUT column_name name) RETURNS SETOF record
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE refers(rel, col) AS (
        SELECT r::oid, c FROM unnest(relations, columns) u(r, c)
        UNION
        SELECT coalesce(pg_partition_root(c.conrelid), c.conrelid), a.attname
        FROM refers r
        JOIN pg_constraint c ON contype = 'f' AND r.rel IN (confrelid, pg_partition_root(confrelid))
        CROSS JOIN LATERAL unnest(conkey, confkey) k(referring, referenced)
        JOIN pg_attribute a ON a.attrelid = conrelid AND a.attnum = k.referring
        JOIN pg_attribute f ON f.attrelid = confrelid AND f.attnum = k.referenced AND f.attname = r.col)
    SELECT rel, col FROM refers
$$;
COMMENT ON FUNCTION snowflake_referring(regclass[], name[]) IS
    'not to be called: for snowflake_adopt_plan(), columns and the columns that reference them';

-- Before COMMIT: raises an error unless these columns are bigint, and so are the columns that now reference them.
CREATE FUNCTION snowflake_must_be_bigint(relations regclass[], columns name[]) RETURNS void
    LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ours text := (SELECT format('%I', nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg');
    referring_relations regclass[];
    referring_columns name[];
    narrow text;
BEGIN
    EXECUTE format('SELECT array_agg(relation), array_agg(column_name) FROM %s.snowflake_referring($1, $2)', ours)
        INTO referring_relations, referring_columns USING relations, columns;
    SELECT string_agg(format('%I of %s', attname, rel), ', ' ORDER BY rel::text, attname) INTO narrow
        FROM unnest(referring_relations, referring_columns) u(rel, col) JOIN pg_attribute ON attrelid = rel AND attname = col
        WHERE atttypid IN ('smallint'::regtype, 'integer'::regtype);
    -- mutant: plan-narrow-columns
    IF narrow IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = 'columns are not bigint yet',
            DETAIL = format('They are %s.', narrow), HINT = 'Make a new plan, and run it.';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_must_be_bigint(regclass[], name[]) IS
    'not to be called: for snowflake_adopt_plan(), an error unless these columns, and the columns that reference them, are bigint';

-- The plan for these columns of these tables, which all contain numbers: in one transaction, or in one for each table that must be
-- rewritten, and a last one.
CREATE FUNCTION snowflake_make_plan(relations regclass[], column_names name[], at_once boolean) RETURNS SETOF snowflake_step
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on SET quote_all_identifiers = off
    -- Raises an error rather than reading a part of the rows.
    -- mutant: plan-all-rows
    SET row_security = off AS $$
DECLARE
    ours text := (SELECT format('%I', nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg');
    me regrole := quote_ident(current_user)::regrole;
    -- For commands that can call code of the owner, if that is another role.
    -- mutant: plan-types
    run_as text := replace(ours, '%', '%%') || '.snowflake_run_as(%L::pg_catalog.regrole, %L::pg_catalog.text)';
    relation regclass;
    column_name name;
    id pg_attribute;
    owner regrole;
    old_default text;
    -- The sequence of an identity or serial column, or one that the default calls.
    old_sequence regclass;
    old_name name;
    kept text;
    numbering text;
    start bigint;
    numbers text;
    referring_relations oid[];
    referring_columns name[];
    -- Constraints that could refuse the new IDs.
    checks text;
    is_key boolean;
    narrow_relations oid[];
    narrow_columns name[];
    widen record;
    remarks text[];
    defaults text[] := '{}';
    default_notes text[] := '{}';
    -- Commands and their notes, in the order in which they run.
    commands text[] := '{}';
    notes text[] := '{}';
    more text[];
    more_notes text[];
    widenings text[] := '{}';
    widening_notes text[] := '{}';
    command text;
    of_command text;
    others text;
    dependents record;
    -- Objects that earlier transactions of the plan recreate.
    remade oid[] := '{}';
    begins text[] := ARRAY['BEGIN ISOLATION LEVEL READ COMMITTED', format('SELECT %s.snowflake_all_or_nothing()', ours),
        'SET LOCAL lock_timeout = ''500ms'''];
    begin_notes text[] := ARRAY['All or nothing, even where psql continues after an error.', 'Raises an error with ON_ERROR_ROLLBACK, which would commit a part.',
        'Below deadlock_timeout, so the plan fails rather than a writer. Run the plan again then.'];
    fixed text := 'SELECT ' || (SELECT string_agg(format('pg_catalog.set_config(%L, %L, true)', setting, value), ', ' ORDER BY nth)
        FROM (VALUES (1, 'search_path', 'pg_catalog, pg_temp'), (2, 'standard_conforming_strings', 'on'), (3, 'check_function_bodies', 'off'),
            (4, 'datestyle', 'ISO, YMD'), (5, 'intervalstyle', 'postgres'), (6, 'default_tablespace', '')) settings(nth, setting, value));
    fixed_note text := 'The commands that recreate objects are written for these settings.';
    lock_note text := 'Prevents changes of it until COMMIT. Changes nothing itself.';
    drop_note text := 'It reads a column that must become bigint, and is recreated below.';
    make_note text := 'Unchanged.';
    obstacles text[] := '{}';
    highest bigint;
    greatest_id bigint;
    lowest bigint;
    is_ahead boolean;
    state text;
BEGIN
    -- The columns, and the columns that reference them by foreign keys, if narrower than bigint.
    EXECUTE format('SELECT array_agg(relation), array_agg(column_name) FROM %s.snowflake_referring($1, $2)', ours)
        INTO referring_relations, referring_columns USING relations, column_names;
    SELECT coalesce(array_agg(rel) FILTER (WHERE typtype = 'b'), '{}'), coalesce(array_agg(col) FILTER (WHERE typtype = 'b'), '{}'),
        coalesce(array_agg(format('%I of %s cannot become bigint: its type is the domain %s.', col, rel::regclass, atttypid::regtype))
            FILTER (WHERE typtype = 'd'), '{}')
        INTO narrow_relations, narrow_columns, obstacles
        FROM unnest(referring_relations, referring_columns) u(rel, col) JOIN pg_attribute ON attrelid = rel AND attname = col
        JOIN pg_type t ON t.oid = atttypid
        WHERE ARRAY[atttypid, typbasetype] && ARRAY['smallint'::regtype, 'integer'::regtype]::oid[];
    FOR widen IN
        WITH RECURSIVE narrow AS (
            SELECT rel, col, attinhcount FROM unnest(narrow_relations, narrow_columns) u(rel, col)
            JOIN pg_attribute ON attrelid = rel AND attname = col),
        members(rel, member) AS (
            SELECT rel, rel FROM narrow
            UNION
            SELECT rel, inhrelid FROM members JOIN pg_inherits ON inhparent = member),
        in_the_way(rel, note) AS (
            SELECT rel, format('%I of %s cannot become bigint while there is: %s.', col, member::regclass,
                pg_describe_object(d.classid, d.objid, d.objsubid))
            FROM narrow JOIN members m USING (rel) JOIN pg_attribute a ON a.attrelid = member AND a.attname = col
            JOIN pg_depend d ON refclassid = 'pg_class'::regclass AND refobjid = member AND refobjsubid = a.attnum
            LEFT JOIN pg_attrdef f ON d.classid = 'pg_attrdef'::regclass AND f.oid = d.objid
            LEFT JOIN pg_attribute g ON g.attrelid = f.adrelid AND g.attnum = f.adnum
            LEFT JOIN pg_rewrite w ON d.classid = 'pg_rewrite'::regclass AND w.oid = d.objid
            WHERE g.attgenerated <> '' OR w.rulename <> '_RETURN' OR d.classid = 'pg_publication_rel'::regclass
            UNION
            SELECT rel, format('%I of %s cannot become bigint: it is in the partition key.', col, member::regclass)
            FROM narrow JOIN members m USING (rel) JOIN pg_attribute a ON a.attrelid = member AND a.attname = col
            JOIN pg_partitioned_table ON partrelid = member
            WHERE a.attnum = ANY (partattrs) OR EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass
                AND d.objid = member AND d.refclassid = 'pg_class'::regclass AND d.refobjid = member
                AND d.refobjsubid = a.attnum)
            UNION
            SELECT rel, format('%I of %s cannot become bigint: the table is of type %s.', col, member::regclass,
                reloftype::regtype)
            FROM narrow JOIN members USING (rel) JOIN pg_class ON pg_class.oid = member
            WHERE reloftype <> 0
            UNION
            SELECT rel, format('%I of %s cannot become bigint: %s owns it, and %s owns %s.', col, rel::regclass,
                r.relowner::regrole, m.relowner::regrole, member::regclass)
            FROM narrow JOIN members USING (rel) JOIN pg_class r ON r.oid = rel JOIN pg_class m ON m.oid = member
            WHERE m.relowner <> r.relowner
            UNION
            SELECT rel, format('%I of %s cannot become bigint: %I of %s is of its row type.', col, member::regclass,
                u.attname, u.attrelid::regclass)
            FROM narrow JOIN members USING (rel) JOIN pg_type t ON typrelid = member
            JOIN pg_attribute u ON u.atttypid IN (t.oid, typarray) AND NOT u.attisdropped
            JOIN pg_class c ON c.oid = u.attrelid AND c.relkind IN ('r', 'p', 'm')
            UNION
            SELECT rel, format('%I of %s cannot become bigint while there is: %s, which needs the index of a partition.', col, rel::regclass,
                pg_describe_object('pg_constraint'::regclass, k.oid, 0))
            FROM narrow JOIN members m USING (rel) JOIN pg_constraint k ON contype = 'f' AND confrelid = member AND conparentid = 0
            JOIN pg_attribute a ON a.attrelid = member AND a.attname = col AND a.attnum = ANY (confkey)
            WHERE EXISTS (SELECT FROM pg_inherits WHERE inhrelid = conindid)
            UNION
            SELECT rel, format('%I of %s cannot become bigint: it is inherited from another table.', col, rel::regclass)
            FROM narrow WHERE attinhcount > 0)
        SELECT rel::regclass, string_agg(format('ALTER COLUMN %I TYPE bigint', col), ', ' ORDER BY col) AS actions, array_agg(col) AS cols,
            (SELECT pg_size_pretty(sum(pg_total_relation_size(member))) FROM members m WHERE m.rel = narrow.rel) AS size,
            (SELECT array_agg(note ORDER BY note) FROM in_the_way w WHERE w.rel = narrow.rel) AS in_the_way,
            (SELECT relowner::regrole FROM pg_class WHERE oid = rel) AS rel_owner,
            (SELECT string_agg(DISTINCT joined::regclass::text, ', ') FROM pg_constraint CROSS JOIN LATERAL (VALUES (conrelid), (confrelid)) j(joined)
                WHERE contype = 'f' AND rel IN (conrelid, confrelid) AND joined <> rel
                AND NOT (SELECT relispartition FROM pg_class WHERE oid = joined)) AS joined
        FROM narrow GROUP BY rel ORDER BY rel = ANY (relations::oid[]), rel::regclass::text
    LOOP
        obstacles := obstacles || coalesce(widen.in_the_way, '{}');
        IF widen.rel <> ALL (relations) THEN
            others := concat_ws(', ', others, widen.rel);
        END IF;
        command := format('ALTER TABLE %s %s', widen.rel, widen.actions);
        -- mutant: widen-as-owner
        IF widen.rel_owner <> me THEN
            command := 'SELECT ' || format(run_as, widen.rel_owner, command);
        END IF;
        of_command := concat(
            format('Rewrites %s with its indexes, %s now. Readers and writers of it wait until COMMIT.', widen.rel, widen.size),
            CASE WHEN widen.rel_owner <> me THEN
                format(' Runs as its owner, %s, whose code it can call.', widen.rel_owner) END);
        IF at_once THEN
            widenings := widenings || command;
            widening_notes := widening_notes || of_command;
        ELSE
            EXECUTE format('SELECT * FROM %s.snowflake_dependents($1, $2, $3)', ours) INTO dependents
                USING array_fill(widen.rel::oid, ARRAY[cardinality(widen.cols)]), widen.cols, remade;
            obstacles := obstacles || dependents.obstacles;
            remade := remade || dependents.objects;
            SELECT commands || array_agg(c ORDER BY place, nth), notes || array_agg(n ORDER BY place, nth) INTO commands, notes FROM (
                SELECT 1, nth, c, n FROM unnest(begins, begin_notes) WITH ORDINALITY u(c, n, nth)
                UNION ALL
                VALUES (2, 0::bigint, CASE WHEN dependents.makes <> '{}' THEN fixed END, fixed_note),
                    (5, 0, format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', concat_ws(', ', widen.rel, widen.joined)),
                        'With the tables that foreign keys join to it. Readers and writers of them wait until COMMIT.'),
                    (6, 0, command, of_command),
                    (8, 0, 'COMMIT', 'Releases these locks.')
                UNION ALL
                SELECT 3, nth, c, lock_note FROM unnest(dependents.locks) WITH ORDINALITY u(c, nth)
                UNION ALL
                SELECT 4, nth, c, drop_note FROM unnest(dependents.drops) WITH ORDINALITY u(c, nth)
                UNION ALL
                SELECT 7, nth, c, make_note FROM unnest(dependents.makes) WITH ORDINALITY u(c, nth)) steps(place, nth, c, n)
                WHERE c IS NOT NULL;
        END IF;
    END LOOP;
    EXECUTE format('SELECT * FROM %s.snowflake_dependents($1, $2, ''{}'')', ours) INTO dependents
        USING CASE WHEN at_once THEN narrow_relations ELSE '{}' END, CASE WHEN at_once THEN narrow_columns ELSE '{}' END;
    obstacles := obstacles || dependents.obstacles;

    EXECUTE format('SELECT state FROM %s.snowflake_status', ours) INTO state;
    IF state NOT IN ('ready', 'idle', 'waiting') THEN
        obstacles := obstacles || format('This server issues no IDs at present: its state is %s.', state);
    END IF;
    EXECUTE format('SELECT %s.snowflake_min_id(clock_timestamp())', ours) INTO lowest;
    FOR relation, column_name IN SELECT r, c FROM unnest(relations, column_names) u(r, c) LOOP
        SELECT relowner INTO owner FROM pg_class WHERE oid = relation;
        SELECT * INTO id FROM pg_attribute WHERE attrelid = relation AND attname = column_name;
        SELECT pg_get_expr(adbin, adrelid) INTO old_default FROM pg_attrdef WHERE adrelid = relation AND adnum = id.attnum;
        SELECT c.oid INTO old_sequence FROM pg_depend d
            LEFT JOIN pg_attrdef f ON d.classid = 'pg_attrdef'::regclass AND f.oid = d.objid
            JOIN pg_class c ON c.relkind = 'S' AND c.oid = CASE WHEN f.oid IS NULL THEN d.objid ELSE d.refobjid END
            WHERE (d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
                   AND d.refobjid = relation AND d.refobjsubid = id.attnum AND d.deptype IN ('a', 'i'))
               OR (f.adrelid = relation AND f.adnum = id.attnum AND d.refclassid = 'pg_class'::regclass)
            LIMIT 1;

        SELECT string_agg(pg_get_constraintdef(c.oid), ', ' ORDER BY conname) INTO checks
            FROM pg_constraint c WHERE conrelid = relation AND contype = 'c' AND id.attnum = ANY (conkey);
        is_key := EXISTS (SELECT FROM pg_partitioned_table WHERE partrelid = relation AND id.attnum = ANY (partattrs));

        IF id.attgenerated <> '' THEN
            obstacles := obstacles || format('%I of %s is a generated column.', column_name, relation);
        END IF;
        command := format('SELECT max(%I)::bigint FROM %s', column_name, relation);
        -- mutant: read-as-owner
        IF owner <> me AND pg_has_role(owner, 'MEMBER') THEN
            command := 'SELECT ' || format(run_as, owner, command);
        END IF;
        EXECUTE command INTO highest;
        IF highest >= lowest THEN
            greatest_id := greatest(greatest_id, highest);
            EXECUTE format('SELECT $1 > %s.snowflake_min_id(clock_timestamp() + $2::interval)', ours)
                INTO is_ahead USING highest, coalesce(current_setting('snowflake_pg.max_forward_jump', true), '1h');
            IF is_ahead THEN
                obstacles := obstacles || concat(format('The greatest ID, %s, is too far ahead of new ones.', highest),
                    ' If these are IDs of another layout, set snowflake_pg.layout to that.',
                    ' If they are not Snowflake IDs, give these rows lower numbers, or add another column.');
            END IF;
        END IF;
        -- Bounds that are the defaults of a type become the defaults of bigint.
        SELECT relname, format('%I.snowflake_kept', nspname), seqstart, concat(format('INCREMENT %s', seqincrement),
                CASE WHEN seqmin NOT IN (1, -32768, -2147483648, -9223372036854775808) THEN format(' MINVALUE %s', seqmin) END,
                CASE WHEN seqmax NOT IN (-1, 32767, 2147483647, 9223372036854775807) THEN format(' MAXVALUE %s', seqmax) END,
                format(' CACHE %s', seqcache), CASE WHEN seqcycle THEN ' CYCLE' END)
            INTO old_name, kept, start, numbering
            FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace JOIN pg_sequence ON seqrelid = c.oid
            WHERE c.oid = old_sequence;
        -- As the owner, who could replace the sequence by a view.
        numbers := format('SELECT pg_catalog.setval(%L::pg_catalog.regclass, last_value, is_called) FROM %s', kept, old_sequence);
        SELECT array_agg(planned.command ORDER BY place), array_agg(planned.note ORDER BY place) INTO more, more_notes
        FROM (
            VALUES
                (6.1, CASE WHEN id.attidentity <> '' THEN
                        format('CREATE SEQUENCE %s AS bigint %s START %s', kept, numbering, start) END,
                    'Keeps the number of the identity for snowflake_revert_plan().'),
                (6.2, CASE WHEN id.attidentity <> '' AND owner <> me THEN
                        format('ALTER SEQUENCE %s OWNER TO %s', kept, owner) END,
                    'A sequence can only belong to a table of the same owner.'),
                (6.3, CASE WHEN id.attidentity <> '' THEN CASE WHEN owner <> me THEN 'SELECT ' || format(run_as, owner, numbers)
                        ELSE numbers END END,
                    'Nobody can take a number meanwhile.'),
                (7, CASE WHEN id.attidentity <> '' THEN
                        format('ALTER TABLE %s ALTER COLUMN %I DROP IDENTITY', relation, column_name) END,
                    format('Drops the sequence %s.', old_sequence)),
                (8.1, CASE WHEN id.attidentity <> '' THEN format('ALTER SEQUENCE %s RENAME TO %I', kept, old_name) END,
                    'Restores its name.'),
                (8.2, CASE WHEN id.attidentity <> '' THEN
                        format('ALTER SEQUENCE %s OWNED BY %s.%I', old_sequence, relation, column_name) END,
                    'Dropped with the column.'),
                (9, CASE WHEN id.attidentity <> '' THEN
                        format('COMMENT ON SEQUENCE %s IS ''snowflake_pg: GENERATED %s AS IDENTITY''', old_sequence,
                            CASE id.attidentity WHEN 'a' THEN 'ALWAYS' ELSE 'BY DEFAULT' END) END,
                    'For snowflake_revert_plan().'),
                (10, CASE WHEN id.attidentity = '' AND EXISTS (SELECT FROM pg_sequence JOIN pg_class c ON c.oid = seqrelid
                        WHERE seqrelid = old_sequence AND seqtypid <> 'bigint'::regtype AND relowner = owner) THEN format('ALTER SEQUENCE %s AS bigint', old_sequence) END,
                    'Kept for snowflake_revert_plan().'),
                (11, format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s.snowflake_nextval()', relation, column_name, ours),
                    concat('New rows get Snowflake IDs. lastval() and currval() do not know them: use RETURNING.',
                        ' The default was ' || old_default || '.', ' They must pass ' || checks || '.',
                        CASE WHEN is_key THEN ' There must be partitions for them.' END))
        ) planned(place, command, note)
        WHERE planned.command IS NOT NULL;
        defaults := defaults || more;
        default_notes := default_notes || more_notes;
    END LOOP;
    IF obstacles <> '{}' THEN
        RETURN QUERY SELECT 0, NULL::text, note FROM unnest(obstacles) note;
        RETURN;
    END IF;

    -- What a plan does not change, although the new IDs may not fit there.
    SELECT coalesce(array_agg(remark ORDER BY place, remark), '{}') INTO remarks FROM (
        SELECT 1 AS place, format('%s is published by %s: make the column a bigint on the subscribers first.', rel::regclass,
            string_agg(quote_ident(pubname), ', ' ORDER BY pubname)) AS remark
        FROM (SELECT DISTINCT rel FROM unnest(narrow_relations) rel) narrow JOIN pg_class ON oid = rel
        JOIN pg_namespace n ON n.oid = relnamespace JOIN pg_publication_tables ON schemaname = nspname AND tablename = relname
        GROUP BY rel
        UNION ALL
        SELECT 2, format('%s of %s is of type %s, and may reference %s without a foreign key: it is not changed.', quote_ident(a.attname),
            c.oid::regclass, format_type(a.atttypid, NULL), rel)
        FROM unnest(relations) rel JOIN pg_class t ON t.oid = rel
        JOIN pg_attribute a ON a.attname IN (t.relname, t.relname || '_id', regexp_replace(t.relname, 's$', '') || '_id',
            regexp_replace(t.relname, 'ies$', 'y') || '_id', regexp_replace(t.relname, 'es$', '') || '_id')
        JOIN pg_class c ON c.oid = a.attrelid
        WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND NOT a.attisdropped
            AND a.atttypid IN ('smallint'::regtype, 'integer'::regtype)
            AND NOT EXISTS (SELECT FROM unnest(narrow_relations, narrow_columns) u(r, col) WHERE r = c.oid AND col = a.attname)
            AND NOT EXISTS (SELECT FROM pg_constraint WHERE contype = 'f' AND conrelid = c.oid AND a.attnum = ANY (conkey))
        UNION ALL
        SELECT 3, format('%s has a parameter or a result of 32 bits or less, and mentions %s: check whether these are its IDs.', p.oid::regprocedure,
            string_agg(rel::text, ', ' ORDER BY rel::text))
        FROM unnest(relations) rel JOIN pg_class t ON t.oid = rel
        JOIN pg_proc p ON strpos(CASE WHEN prosqlbody IS NULL THEN prosrc ELSE pg_get_function_sqlbody(p.oid) END, t.relname) > 0
            AND CASE WHEN prosqlbody IS NULL THEN prosrc ELSE pg_get_function_sqlbody(p.oid) END
                ~ ('\m' || regexp_replace(t.relname, '\W', '\\\&', 'g') || '\M')
        WHERE p.pronamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
            AND ARRAY['smallint'::regtype, 'integer'::regtype]::oid[] && (p.proargtypes::oid[] || p.prorettype || p.proallargtypes)
            AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = p.oid AND deptype = 'e')
        GROUP BY p.oid) remarked;

    RETURN QUERY
    SELECT row_number() OVER (ORDER BY place, nth)::integer, planned.command, planned.note
    FROM (
        SELECT place, 0 AS nth, c, n FROM (
            VALUES
                (5.1, CASE WHEN dependents.makes <> '{}' THEN fixed END, fixed_note),
                -- mutant: plan-superuser-last
                (5.2, CASE WHEN greatest_id IS NOT NULL THEN format('SELECT %s.snowflake_advance(%s::pg_catalog.int8, false)', ours, greatest_id) END,
                    'There are IDs from elsewhere that are greater than new ones would be. Only for superusers.'),
                -- mutant: plan-locks-at-once
                (8, format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', concat_ws(', ', array_to_string(relations, ', '), CASE WHEN at_once THEN others END)),
                    'Earlier locks are only on objects that read these tables.'),
                -- mutant: plan-new-key
                (13, format('SELECT %s.snowflake_must_be_bigint(%L::pg_catalog.regclass[], %L::pg_catalog.name[])',
                    ours, relations, column_names), 'Raises an error if a column that references them is not a bigint.'),
                (14, 'COMMIT', 'Releases all locks.')) fixed(place, c, n)
        WHERE c IS NOT NULL
        UNION ALL
        SELECT 1, nth, NULL, n FROM unnest(remarks) WITH ORDINALITY u(n, nth)
        UNION ALL
        SELECT 4, nth, c, n FROM unnest(commands, notes) WITH ORDINALITY u(c, n, nth)
        UNION ALL
        SELECT 5, nth, c, n FROM unnest(begins, begin_notes) WITH ORDINALITY u(c, n, nth)
        UNION ALL
        SELECT 6, nth, c, lock_note FROM unnest(dependents.locks) WITH ORDINALITY u(c, nth)
        UNION ALL
        SELECT 7, nth, c, drop_note FROM unnest(dependents.drops) WITH ORDINALITY u(c, nth)
        UNION ALL
        SELECT 10, nth, c, n FROM unnest(widenings, widening_notes) WITH ORDINALITY u(c, n, nth)
        UNION ALL
        SELECT 11, nth, c, n FROM unnest(defaults, default_notes) WITH ORDINALITY u(c, n, nth)
        UNION ALL
        SELECT 12, nth, c, make_note FROM unnest(dependents.makes) WITH ORDINALITY u(c, nth)
    ) planned(place, nth, command, note);
END
$$;
COMMENT ON FUNCTION snowflake_make_plan(regclass[], name[], boolean) IS
    'not to be called: the plan of snowflake_adopt_plan() and snowflake_adopt_schema_plan()';

CREATE FUNCTION snowflake_adopt_plan(relation regclass, column_name name DEFAULT 'id') RETURNS SETOF snowflake_step
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on SET quote_all_identifiers = off AS $$
DECLARE
    ours text := (SELECT format('%I', nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg');
    id pg_attribute;
    old_default text;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class WHERE oid = relation AND relkind IN ('r', 'p') AND NOT relispartition) THEN
        RAISE EXCEPTION USING ERRCODE = 'wrong_object_type',
            MESSAGE = format('%s is not a table, or is a partition', relation), HINT = 'Name the table itself.';
    END IF;
    SELECT * INTO id FROM pg_attribute
        WHERE attrelid = relation AND attname = column_name AND attnum > 0 AND NOT attisdropped;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_column',
            MESSAGE = format('column "%s" of relation %s does not exist', column_name, relation);
    END IF;
    SELECT pg_get_expr(adbin, adrelid) INTO old_default FROM pg_attrdef WHERE adrelid = relation AND adnum = id.attnum;
    IF old_default ~ '\msnowflake_(nextval|nextval_tagged|id)\(' THEN
        RETURN QUERY VALUES (1, NULL, format('There is nothing to do: the default is %s.', old_default));
        RETURN;
    END IF;
    IF id.atttypid NOT IN ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype)
       AND id.atttypid IS DISTINCT FROM to_regtype(ours || '.snowflake')::oid THEN
        RAISE EXCEPTION USING ERRCODE = 'datatype_mismatch',
            MESSAGE = format('column "%s" of relation %s must be of type smallint, integer, bigint or snowflake',
                column_name, relation),
            DETAIL = format('Its type is %s.', format_type(id.atttypid, id.atttypmod)),
            HINT = CASE id.atttypid WHEN 'uuid'::regtype THEN
                format('A uuid needs no plan: ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s.snowflake_to_uuid(%s.snowflake_nextval()).',
                    relation, column_name, ours, ours)
                ELSE 'Add a column of type bigint.' END;
    END IF;
    RETURN QUERY EXECUTE format('SELECT * FROM %s.snowflake_make_plan($1, $2, true)', ours) USING ARRAY[relation], ARRAY[column_name];
END
$$;
COMMENT ON FUNCTION snowflake_adopt_plan(regclass, name) IS
    'commands for \gexec that give a column the default snowflake_nextval(), and make it and the columns that reference it bigint; changes nothing itself';

CREATE FUNCTION snowflake_adopt_schema_plan(schema regnamespace) RETURNS SETOF snowflake_step
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE ROWS 100 SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on SET quote_all_identifiers = off AS $$
DECLARE
    ours text := (SELECT format('%I', nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg');
    numbered record;
    relations regclass[] := '{}';
    columns name[] := '{}';
    -- Of columns and the columns that reference them, those that are narrower than bigint.
    narrow_of text := format('SELECT string_agg(format(''%%I of %%s'', attname, attrelid::regclass), '', ''
            ORDER BY attrelid::regclass::text, attname)
        FROM %s.snowflake_referring($1, $2) JOIN pg_attribute ON attrelid = relation AND attname = column_name
        JOIN pg_type t ON t.oid = atttypid
        WHERE ARRAY[atttypid, typbasetype] && ARRAY[''smallint''::regtype, ''integer''::regtype]::oid[]', ours);
    narrow text;
    kept text[] := '{}';
    others text[] := '{}';
BEGIN
    FOR numbered IN
        SELECT c.oid::regclass AS relation, attname,
            EXISTS (SELECT FROM pg_constraint WHERE conrelid = c.oid AND contype = 'p' AND attnum = ANY (conkey)) AS is_key
        FROM pg_class c JOIN pg_attribute a ON attrelid = c.oid AND attnum > 0 AND NOT attisdropped AND attinhcount = 0
        LEFT JOIN pg_attrdef f ON adrelid = c.oid AND adnum = attnum
        WHERE relnamespace = schema AND relkind IN ('r', 'p') AND NOT relispartition
            AND atttypid IN ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype)
            AND (attidentity <> '' OR EXISTS (SELECT FROM pg_depend d JOIN pg_class s ON s.oid = refobjid AND s.relkind = 'S'
                WHERE d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid AND refclassid = 'pg_class'::regclass))
            AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND deptype = 'e')
        ORDER BY c.oid::regclass::text, attname
    LOOP
        IF NOT numbered.is_key THEN
            others := others || format('%I of %s is numbered by a sequence, and not in the primary key: it is not changed.',
                numbered.attname, numbered.relation);
            CONTINUE;
        END IF;
        EXECUTE narrow_of INTO narrow USING ARRAY[numbered.relation], ARRAY[numbered.attname];
        IF narrow IS NULL OR coalesce(current_setting('snowflake_pg.widen_serial', true), 'off')::boolean THEN
            relations := relations || numbered.relation;
            columns := columns || numbered.attname;
        ELSE
            kept := kept || format('%I of %s keeps its numbers, since snowflake_pg.widen_serial is off. Narrower than bigint: %s.',
                numbered.attname, numbered.relation, narrow);
        END IF;
    END LOOP;
    EXECUTE narrow_of INTO narrow USING relations, columns;
    IF narrow IS NOT NULL THEN
        RETURN QUERY VALUES (0, NULL, concat(format('These columns become bigint: %s.', narrow),
            ' The application must declare them with 64 bits before the plan runs.',
            ' To leave their keys unchanged, set snowflake_pg.widen_serial to off, and make a new plan.'));
    END IF;
    RETURN QUERY SELECT 0, NULL::text, note FROM unnest(kept || others) note;
    IF relations = '{}' AND kept = '{}' THEN
        RETURN QUERY VALUES (1, NULL, format('There is nothing to do: no primary key in schema %s is numbered by a sequence.', schema));
    ELSIF relations <> '{}' THEN
        RETURN QUERY EXECUTE format('SELECT * FROM %s.snowflake_make_plan($1, $2, false)', ours) USING relations, columns;
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_adopt_schema_plan(regnamespace) IS
    'the commands of snowflake_adopt_plan() for all primary keys of a schema that sequences or identities number, in a transaction for each table that must be rewritten; leaves narrow keys where snowflake_pg.widen_serial is off; changes nothing itself';
