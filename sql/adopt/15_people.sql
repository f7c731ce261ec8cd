-- Adopting online: what people call, and what they see

CREATE FUNCTION snowflake_adopt.begin_migration_for_caller(relation regclass, column_name name, published boolean)
    RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
        SET lock_timeout = '10s' AS $$
DECLARE
    narrow text := snowflake_adopt.narrow_list(ARRAY[relation], ARRAY[column_name]);
    obstacles text[];
    remark text;
BEGIN
    IF relation IS NULL OR column_name IS NULL OR published IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'arguments must not be NULL';
    END IF;
    PERFORM snowflake_adopt.must_be_adoptable(relation, column_name);
    IF EXISTS (SELECT FROM snowflake_adopt.migration m WHERE m.relation = begin_migration_for_caller.relation
        AND m.goal = 'undone') THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('the migration of %s is being undone', relation),
            HINT = format('CALL snowflake_adopt.undo(%L) waits until it is.', relation);
    ELSIF EXISTS (SELECT FROM snowflake_adopt.migration m WHERE m.relation = begin_migration_for_caller.relation
        AND m.column_name <> begin_migration_for_caller.column_name) THEN
        RAISE EXCEPTION USING ERRCODE = 'object_in_use',
            MESSAGE = format('another column of %s is being adopted', relation),
            HINT = 'Finish that migration first.';
    ELSIF EXISTS (SELECT FROM snowflake_adopt.migration m WHERE m.relation = begin_migration_for_caller.relation) THEN
        -- There can be other columns by now.
        -- mutant: start-again
        UPDATE snowflake_adopt.migration m SET done = '{}' WHERE m.relation = begin_migration_for_caller.relation
            AND snowflake_adopt.may_become(m.role);
        RETURN;
    ELSIF snowflake_adopt.issues_ids(relation, column_name) AND narrow IS NOT NULL THEN
        -- Rows with new IDs fail already, so nobody gains from taking time.
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('columns are too narrow for the IDs of %s', relation),
            DETAIL = format('They are %s.', narrow),
            HINT = format('snowflake_adopt.plan(%L, %L) makes them bigint.', relation, column_name);
    ELSIF snowflake_adopt.issues_ids(relation, column_name) THEN
        RAISE NOTICE 'there is nothing to do: new rows of % have Snowflake IDs', relation;
        RETURN;
    END IF;
    obstacles := ARRAY(SELECT why FROM snowflake_adopt.why_not_online(relation, column_name, published) why
        ORDER BY why);
    IF obstacles <> '{}' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('%s cannot be adopted while it is in use', relation),
            DETAIL = array_to_string(obstacles, E'\n'),
            HINT = 'Nothing was changed. See docs/adopting.md in the documentation of snowflake_pg for what to do.';
    END IF;
    -- mutant: begin-for-others
    IF NOT snowflake_adopt.may_change(relation) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = format('must be owner of table %s', relation);
    END IF;
    INSERT INTO snowflake_adopt.migration (relation, column_name, role, is_published)
        VALUES (relation, column_name, snowflake_adopt.caller()::regrole, published);
    PERFORM snowflake_adopt.take_in_columns(relation);
    IF NOT EXISTS (SELECT FROM snowflake_adopt.beside b WHERE b.migration = begin_migration_for_caller.relation) THEN
        RAISE NOTICE 'no column is narrower than bigint: snowflake_adopt.finish() changes only the default';
    ELSE
        RAISE NOTICE 'these columns become bigint, and the last ones of their tables: %', narrow;
    END IF;
    FOR remark IN SELECT * FROM snowflake_adopt.remarks(ARRAY[relation], ARRAY[column_name]) LOOP
        RAISE NOTICE '%', remark;
    END LOOP;
END
$$;
COMMENT ON FUNCTION snowflake_adopt.begin_migration_for_caller(regclass, name, boolean) IS
    'not to be called: does what begin_migration() is for';
CREATE FUNCTION snowflake_adopt.begin_migration(relation regclass, column_name name, published boolean) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_adopt_enter';
COMMENT ON FUNCTION snowflake_adopt.begin_migration(regclass, name, boolean) IS
    'not to be called: begins a migration; an error if something stands in the way';

CREATE FUNCTION snowflake_adopt.key_with_ids(relation regclass) RETURNS name
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT attname FROM pg_constraint JOIN pg_attribute ON attrelid = conrelid AND attnum = ANY (conkey)
    WHERE conrelid = relation AND contype = 'p' AND snowflake_adopt.issues_ids(relation, attname) LIMIT 1
$$;
COMMENT ON FUNCTION snowflake_adopt.key_with_ids(regclass) IS
    'not to be called: the column of the primary key of a table whose default issues Snowflake IDs; NULL if there is '
    'none';

-- Returns the column; NULL if there is nothing to wait for.
CREATE FUNCTION snowflake_adopt.aim_for_caller(relation regclass, goal text, share integer, max_lag interval,
    max_step interval) RETURNS name
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
        SET lock_timeout = '10s' AS $$
DECLARE
    aimed name;
    key name;
BEGIN
    IF share NOT BETWEEN 1 AND 100 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'share must be between 1 and 100',
            DETAIL = format('The share is %s.', share);
    ELSIF max_step <= '0' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'max_step must be greater than 0';
    END IF;
    -- Whoever goes on takes the place of a role that was dropped.
    UPDATE snowflake_adopt.migration m SET role = CASE WHEN EXISTS (SELECT FROM pg_roles r WHERE r.oid = m.role)
        THEN m.role ELSE snowflake_adopt.caller()::regrole END,
        goal = coalesce(aim_for_caller.goal, m.goal), done = '{}', is_paused = aim_for_caller.goal IS NULL,
        failures = 0, repeats = 0, ends = 0, is_at_work = false, error = NULL,
        share = coalesce(aim_for_caller.share, m.share), max_lag = coalesce(aim_for_caller.max_lag, m.max_lag),
        max_step = coalesce(aim_for_caller.max_step, m.max_step)
        -- mutant: migration-of-others
        WHERE m.relation = aim_for_caller.relation AND snowflake_adopt.may_become(m.role) RETURNING m.column_name
            INTO aimed;
    IF FOUND THEN
        RETURN aimed;
    END IF;
    key := snowflake_adopt.key_with_ids(relation);
    -- Also finish() again: a migration of a framework repeats it after its time is over.
    IF goal IN ('copied', 'adopted') AND key IS NOT NULL THEN
        RAISE NOTICE 'there is nothing to do: new rows of % have Snowflake IDs', relation;
        RETURN NULL;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
        MESSAGE = format('%s is not being adopted', relation),
        HINT = CASE WHEN key IS NULL THEN format('CALL snowflake_adopt.start(%L) begins it.', relation)
            ELSE format('New rows have Snowflake IDs: snowflake_adopt.revert_plan(%L, %L) has the way back.', relation,
                key) END;
END
$$;
COMMENT ON FUNCTION snowflake_adopt.aim_for_caller(regclass, text, integer, interval, interval) IS
    'not to be called: does what aim() is for';
CREATE FUNCTION snowflake_adopt.aim(relation regclass, goal text, share integer, max_lag interval,
    max_step interval DEFAULT NULL) RETURNS name
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_adopt_enter';
COMMENT ON FUNCTION snowflake_adopt.aim(regclass, text, integer, interval, interval) IS
    'not to be called: sets the goal of a migration, or lets it rest if there is none';

-- Whether the migration has come to the goal: the background worker has noted that nothing of its phases is to do.
CREATE FUNCTION snowflake_adopt.has_reached_for_caller(relation regclass, goal text, column_name name) RETURNS boolean
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
        SET lock_timeout = '10s' AS $$
DECLARE
    m snowflake_adopt.migration := (SELECT m FROM snowflake_adopt.migration m
        WHERE m.relation = has_reached_for_caller.relation AND snowflake_adopt.may_become(m.role));
    has_ids boolean := snowflake_adopt.issues_ids(relation, column_name);
BEGIN
    IF m.relation IS NULL AND goal <> 'undone' AND NOT has_ids THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('the migration of %s was undone', relation);
    ELSIF m.relation IS NULL AND goal = 'undone' AND has_ids THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('the migration of %s was finished', relation),
            HINT = format('snowflake_adopt.revert_plan(%L, %L) has the way back.', relation, column_name);
    ELSIF m.relation IS NULL THEN
        RETURN true;
    ELSIF m.is_paused THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('the migration of %s is paused', relation),
            DETAIL = coalesce(m.error, 'Somebody has called snowflake_adopt.pause().'),
            HINT = format(CASE m.goal WHEN 'undone' THEN 'CALL snowflake_adopt.undo(%L) goes on.'
                ELSE 'CALL snowflake_adopt.run(%L) goes on, and CALL snowflake_adopt.undo(%1$L) removes what was '
                    'made.' END, relation);
    END IF;
    -- The last goals are reached when the background worker has deleted the migration.
    IF snowflake_adopt.phases(goal) <@ m.done THEN
        RETURN true;
    ELSIF NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = m.role AND rolcanlogin
        AND has_database_privilege(r.oid, current_database(), 'CONNECT')) THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('the background worker of the migration of %s cannot connect as %s', relation, m.role),
            HINT = 'Give that role LOGIN, and CONNECT on the database.';
    ELSIF snowflake_adopt.carrier(relation) IS NULL AND snowflake_adopt.launch(relation) IS NULL
        -- It can have ended meanwhile.
        AND EXISTS (SELECT FROM snowflake_adopt.migration n WHERE n.relation = has_reached_for_caller.relation) THEN
        RAISE EXCEPTION USING ERRCODE = 'configuration_limit_exceeded',
            MESSAGE = 'no background worker is free for the migration',
            HINT = 'Increase max_worker_processes, or wait until another background worker ends.';
    END IF;
    RETURN false;
END
$$;
COMMENT ON FUNCTION snowflake_adopt.has_reached_for_caller(regclass, text, name) IS
    'not to be called: does what has_reached() is for';
CREATE FUNCTION snowflake_adopt.has_reached(relation regclass, goal text, column_name name) RETURNS boolean
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_adopt_enter';
COMMENT ON FUNCTION snowflake_adopt.has_reached(regclass, text, name) IS
    'not to be called: whether a migration has come to a goal; starts its background worker if there is none';

-- Procedures that commit have no SET clause, so they call functions that have one.
CREATE PROCEDURE snowflake_adopt.wait(relation regclass, goal text, column_name name DEFAULT 'id')
    LANGUAGE plpgsql AS $$
DECLARE
    waits pg_catalog.text;
    told pg_catalog.text := '';
BEGIN
    LOOP
        FOR turn IN 1 .. 50 LOOP
            IF column_name IS NULL OR snowflake_adopt.has_reached(relation, goal, column_name) THEN
                RETURN;
            END IF;
            -- CREATE INDEX CONCURRENTLY waits for every snapshot, also for this one.
            COMMIT;
            PERFORM pg_catalog.pg_sleep(0.1);
            COMMIT;
        END LOOP;
        SELECT p.waits_for INTO waits FROM snowflake_adopt.progress p
            WHERE p.relation OPERATOR(pg_catalog.=) wait.relation
            AND p.waits_for OPERATOR(pg_catalog.~) '^(a lock|the transaction|a prepared)';
        IF waits OPERATOR(pg_catalog.<>) told THEN
            RAISE NOTICE 'the migration waits for %', waits;
            told := waits;
        END IF;
    END LOOP;
END
$$;
COMMENT ON PROCEDURE snowflake_adopt.wait(regclass, text, name) IS
    'not to be called: returns when a migration has come to a goal; each wait is a transaction of its own';

CREATE PROCEDURE snowflake_adopt.start(relation regclass, column_name name DEFAULT 'id',
    published boolean DEFAULT false) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM snowflake_adopt.begin_migration(relation, column_name, published);
    COMMIT;
    CALL snowflake_adopt.wait(relation, 'started', column_name);
END
$$;
COMMENT ON PROCEDURE snowflake_adopt.start(regclass, name, boolean) IS
    'begin to adopt a table while it is in use: adds a bigint column beside each narrow one, and triggers that keep '
    'them equal; an error, and no change, if something stands in the way';

CREATE PROCEDURE snowflake_adopt.run(relation regclass, share integer DEFAULT NULL, max_lag interval DEFAULT NULL,
    max_step interval DEFAULT NULL)
    LANGUAGE plpgsql AS $$
DECLARE
    column_name pg_catalog.name := snowflake_adopt.aim(relation, 'copied', share, max_lag, max_step);
BEGIN
    COMMIT;
    CALL snowflake_adopt.wait(relation, 'copied', column_name);
END
$$;
COMMENT ON PROCEDURE snowflake_adopt.run(regclass, integer, interval, interval) IS
    'copy the rows of a table that is being adopted, in batches; share is the percentage of the time in which it works '
    '(50), max_lag the replication lag at which it waits (10 s), and max_step how long one step may take, also of '
    'finish() (1 day); goes on if the caller goes away';

CREATE PROCEDURE snowflake_adopt.pause(relation regclass) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM snowflake_adopt.aim(relation, NULL, NULL, NULL);
END
$$;
COMMENT ON PROCEDURE snowflake_adopt.pause(regclass) IS
    'let a migration rest after its present step, until run() or finish() is called';

CREATE PROCEDURE snowflake_adopt.finish(relation regclass) LANGUAGE plpgsql AS $$
DECLARE
    column_name pg_catalog.name := snowflake_adopt.aim(relation, 'adopted', NULL, NULL);
BEGIN
    COMMIT;
    CALL snowflake_adopt.wait(relation, 'adopted', column_name);
END
$$;
COMMENT ON PROCEDURE snowflake_adopt.finish(regclass) IS
    'make the indexes and constraints of a table that is being adopted, and let the bigint columns take the places of '
    'the narrow ones; new rows have Snowflake IDs then';

CREATE PROCEDURE snowflake_adopt.undo(relation regclass) LANGUAGE plpgsql AS $$
DECLARE
    column_name pg_catalog.name := snowflake_adopt.aim(relation, 'undone', NULL, NULL);
BEGIN
    COMMIT;
    CALL snowflake_adopt.wait(relation, 'undone', column_name);
END
$$;
COMMENT ON PROCEDURE snowflake_adopt.undo(regclass) IS
    'remove the columns, triggers, indexes and constraints of a migration; the table is as it was before';

CREATE FUNCTION snowflake_adopt.migrations_for_caller(
    OUT relation regclass, OUT column_name name, OUT goal text, OUT phase text, OUT copying regclass,
    OUT rows_copied bigint,
    OUT bytes_copied bigint, OUT bytes_total bigint, OUT bytes_per_second bigint, OUT time_left interval,
    OUT waits_for text, OUT error text, OUT pid integer, OUT begun_at timestamptz) RETURNS SETOF record
    LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER ROWS 1 SET search_path = pg_catalog, pg_temp AS $$
    SELECT m.relation, m.column_name, m.goal, m.phase, r.copying, r.rows, r.done, r.total,
        round(r.done / nullif(extract(epoch FROM r.busy), 0) * m.share / 100)::bigint,
        date_trunc('second', CASE m.phase WHEN 'rows'
            THEN r.busy * 100 / m.share * ((r.total - r.done)::double precision / nullif(r.done, 0)) END),
        CASE WHEN m.is_paused THEN 'run() or finish()'
            WHEN c.pid IS NULL THEN coalesce(snowflake_adopt.waits_for_turn(m.role),
                'a background worker: run() or finish() starts one')
            ELSE coalesce(snowflake_adopt.waits_now(c.pid), m.waits_for) END,
        m.error, c.pid, m.begun_at
    FROM snowflake_adopt.migration m
    CROSS JOIN LATERAL (SELECT snowflake_adopt.carrier(m.relation)) c(pid)
    CROSS JOIN LATERAL (
        SELECT min(relation::oid) FILTER (WHERE NOT isempty(todo))::regclass AS copying, sum(rows)::bigint AS rows,
            sum(busy) AS busy,
            (sum(blocks) * block)::bigint AS total,
            (sum(blocks - (SELECT coalesce(sum(upper(piece) - lower(piece)), 0) FROM unnest(todo + again) piece))
                * block)::bigint AS done
        FROM snowflake_adopt.copying CROSS JOIN (SELECT current_setting('block_size')::bigint) b(block)
        WHERE migration = m.relation GROUP BY block
        UNION ALL
        SELECT NULL, NULL, NULL, NULL, NULL
            WHERE NOT EXISTS (SELECT FROM snowflake_adopt.copying WHERE migration = m.relation)) r
    WHERE snowflake_adopt.may_become(m.role)
$$;
COMMENT ON FUNCTION snowflake_adopt.migrations_for_caller() IS 'not to be called: does what migrations() is for';
CREATE FUNCTION snowflake_adopt.migrations(
    OUT relation regclass, OUT column_name name, OUT goal text, OUT phase text, OUT copying regclass,
    OUT rows_copied bigint,
    OUT bytes_copied bigint, OUT bytes_total bigint, OUT bytes_per_second bigint, OUT time_left interval,
    OUT waits_for text, OUT error text, OUT pid integer, OUT begun_at timestamptz) RETURNS SETOF record
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'snowflake_adopt_enter';
COMMENT ON FUNCTION snowflake_adopt.migrations() IS 'not to be called: the rows of snowflake_adopt.progress';

CREATE VIEW snowflake_adopt.progress AS SELECT m.* FROM snowflake_adopt.migrations() m;
COMMENT ON VIEW snowflake_adopt.progress IS 'tables that are being adopted while they are in use';
COMMENT ON COLUMN snowflake_adopt.progress.goal IS
    'how far the last call is to bring it: started, copied, adopted or undone';
COMMENT ON COLUMN snowflake_adopt.progress.phase IS
    'what is being made: columns, rows, indexes, statistics, constraints, swap or undo';
COMMENT ON COLUMN snowflake_adopt.progress.copying IS 'the table or partition whose rows are being copied';
COMMENT ON COLUMN snowflake_adopt.progress.bytes_copied IS 'bytes of the tables whose rows were copied';
COMMENT ON COLUMN snowflake_adopt.progress.bytes_total IS
    'bytes of all tables to be copied, as they were when the first row was copied';
COMMENT ON COLUMN snowflake_adopt.progress.time_left IS
    'until all rows are copied, at the rate so far; NULL if no row was copied yet, and in other phases';
COMMENT ON COLUMN snowflake_adopt.progress.waits_for IS
    'what keeps the background worker from working: at this moment, or at its last try';
COMMENT ON COLUMN snowflake_adopt.progress.error IS 'the last error, if the step that failed has not succeeded since';
COMMENT ON COLUMN snowflake_adopt.progress.pid IS 'the process ID of the background worker';
