-- Adopting online: which migrations there are, and what is next in each
--
-- The catalogs say what is done: to_do() returns a command that is missing. So a migration continues after any
-- error, crash or failover, and notices what others change meanwhile.

-- Also a table that was dropped.
CREATE FUNCTION snowflake_adopt.may_change(relation regclass) RETURNS boolean
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT NOT EXISTS (SELECT FROM pg_class WHERE oid = relation AND NOT snowflake_adopt.may_become(relowner))
$$;
COMMENT ON FUNCTION snowflake_adopt.may_change(regclass) IS
    'not to be called: whether the caller could become the owner of a table';

-- By its OID, since its name can be that of another table when nobody else has the lock.
CREATE FUNCTION snowflake_adopt.lock(relation oid, is_exclusive boolean) RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_adopt_lock_wrapper';
COMMENT ON FUNCTION snowflake_adopt.lock(oid, boolean) IS
    'not to be called: locks a table in ACCESS EXCLUSIVE or SHARE UPDATE EXCLUSIVE mode, whose owner the caller must '
    'be able to become';

-- As LOCK TABLE does.
CREATE FUNCTION snowflake_adopt.lock_with_partitions(relation oid, is_exclusive boolean) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM snowflake_adopt.lock(relation, is_exclusive);
    PERFORM snowflake_adopt.lock(member, is_exclusive) FROM (
        SELECT member::oid FROM snowflake_adopt.members(relation) member WHERE member <> relation
            ORDER BY 1) partitions;
END
$$;
COMMENT ON FUNCTION snowflake_adopt.lock_with_partitions(oid, boolean) IS
    'not to be called: locks a table and its partitions, whose owner the caller must be able to become';

CREATE FUNCTION snowflake_adopt.launch(migration oid) RETURNS integer
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_adopt_launch_wrapper';
COMMENT ON FUNCTION snowflake_adopt.launch(oid) IS
    'not to be called: starts a background worker that carries a migration on; its process ID';

-- Others get parallel workers and migrations, too.
CREATE FUNCTION snowflake_adopt.waits_for_turn(role oid) RETURNS text
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_adopt_waits_for_turn_wrapper';
COMMENT ON FUNCTION snowflake_adopt.waits_for_turn(oid) IS
    'not to be called: which background workers must end before one of this role can begin; NULL if none';

-- The process that carries a migration on, by a lock that no command of anybody takes.
CREATE FUNCTION snowflake_adopt.carrier(migration oid) RETURNS integer
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT pid FROM pg_locks WHERE locktype = 'object' AND objsubid = 1 AND granted AND objid = migration
        AND classid = 'pg_class'::regclass
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
$$;
COMMENT ON FUNCTION snowflake_adopt.carrier(oid) IS
    'not to be called: the process that carries a migration on; NULL if there is none';

-- For a process that has the lock. If one has ended in the same step three times, the step may be what ends it, and the
-- server with it.
CREATE FUNCTION snowflake_adopt.carry(migration oid) RETURNS bigint
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
        SET lock_timeout = '10s' AS $$
BEGIN
    UPDATE snowflake_adopt.migration m SET turn_at = clock_timestamp() WHERE m.relation = migration
        AND m.role = snowflake_adopt.caller();
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    -- mutant: migration-ends
    UPDATE snowflake_adopt.migration m SET is_at_work = false, ends = m.ends + 1,
        is_paused = m.is_paused OR m.ends >= 2,
        error = CASE WHEN m.ends >= 2 THEN format('the background worker has ended three times in phase %s', m.phase)
            ELSE m.error END
        WHERE m.relation = migration AND m.is_at_work;
    RETURN 1;
END
$$;
COMMENT ON FUNCTION snowflake_adopt.carry(oid) IS
    'not to be called: 1 if this process carries a migration on from now on, 0 if it is of another role';

CREATE FUNCTION snowflake_adopt.phases(goal text) RETURNS text[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE goal WHEN 'started' THEN '{columns}'::text[] WHEN 'copied' THEN '{columns,rows}'
        WHEN 'adopted' THEN '{columns,rows,indexes,statistics,constraints,swap}' ELSE '{undo}' END
$$;
COMMENT ON FUNCTION snowflake_adopt.phases(text) IS
    'not to be called: the phases that lead to a goal of a migration, in their order';

-- The first of the commands that are missing, and the role as which to run it at the top level if no function can run
-- it.
CREATE FUNCTION snowflake_adopt.to_do(phase text, migration regclass, OUT command text, OUT role oid)
    LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    CASE phase
        WHEN 'columns' THEN SELECT c INTO command FROM snowflake_adopt.columns_to_do(migration) c LIMIT 1;
        WHEN 'rows' THEN SELECT c INTO command FROM snowflake_adopt.rows_to_do(migration) c LIMIT 1;
        WHEN 'indexes' THEN SELECT i.command, i.owner INTO command, role
            FROM snowflake_adopt.indexes_to_do(migration) i LIMIT 1;
        WHEN 'statistics' THEN SELECT c INTO command FROM snowflake_adopt.statistics_to_do(migration) c LIMIT 1;
        WHEN 'constraints' THEN SELECT c INTO command FROM snowflake_adopt.constraints_to_do(migration) c LIMIT 1;
        WHEN 'swap' THEN SELECT c INTO command FROM snowflake_adopt.swap_to_do(migration) c LIMIT 1;
        WHEN 'undo' THEN SELECT c INTO command FROM snowflake_adopt.undo_to_do(migration) c LIMIT 1;
    END CASE;
END
$$;
COMMENT ON FUNCTION snowflake_adopt.to_do(text, regclass) IS
    'not to be called: a command of a phase of a migration which is missing; NULL if there is none';

CREATE FUNCTION snowflake_adopt.rest_from_work(migration oid) RETURNS void
    LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    UPDATE snowflake_adopt.migration m SET is_at_work = false, ends = 0, waits_for = NULL,
        error = CASE WHEN is_paused THEN error END
    WHERE m.relation = rest_from_work.migration
$$;
COMMENT ON FUNCTION snowflake_adopt.rest_from_work(oid) IS
    'not to be called: notes that no step of a migration is under way';

-- What the background worker does next: a command, the role as which it does so at the top level if no function can run
-- the command, and how long to wait after it, and how long it may take. No row if the goal is reached, or the migration
-- paused.
CREATE FUNCTION snowflake_adopt.next(migration oid, has_succeeded boolean, OUT command text, OUT role oid,
    OUT wait_ms bigint, OUT max_ms bigint) RETURNS SETOF record
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
        SET lock_timeout = '10s' AS $$
DECLARE
    m snowflake_adopt.migration;
    now_in text;
    past text[] := '{}';
    waits text;
    is_held boolean := false;
BEGIN
    -- What is found out holds for whoever sets a goal from here on.
    -- mutant: goal-meanwhile
    SELECT * INTO m FROM snowflake_adopt.migration n WHERE n.relation = next.migration
        AND NOT n.is_paused FOR NO KEY UPDATE;
    IF m.relation IS NULL THEN
        PERFORM snowflake_adopt.rest_from_work(next.migration);
        RETURN;
    ELSIF NOT EXISTS (SELECT FROM pg_class WHERE oid = next.migration) THEN
        DELETE FROM snowflake_adopt.migration d WHERE d.relation = next.migration;
        RETURN;
    END IF;
    DELETE FROM snowflake_adopt.beside b WHERE b.migration = next.migration
        AND NOT EXISTS (SELECT FROM pg_class WHERE oid = b.relation);
    wait_ms := 0;
    max_ms := least(extract(epoch FROM m.max_step) * 1000, 2147483647);
    FOREACH now_in IN ARRAY snowflake_adopt.phases(m.goal) LOOP
        SELECT t.command, t.role INTO command, role FROM snowflake_adopt.to_do(now_in, m.relation) t;
        IF command IS NULL THEN
            past := past || now_in;
            CONTINUE;
        ELSIF now_in = 'rows' THEN
            SELECT t.waits_for, t.is_held, t.wait_ms INTO waits, is_held, wait_ms FROM snowflake_adopt.throttle(m) t;
        END IF;
        UPDATE snowflake_adopt.migration SET phase = now_in, done = past, waits_for = waits,
            failures = CASE WHEN NOT has_succeeded THEN failures ELSE 0 END,
            error = CASE WHEN NOT has_succeeded THEN error END,
            ends = CASE WHEN has_succeeded AND is_at_work THEN 0 ELSE ends END, is_at_work = NOT is_held
            WHERE relation = m.relation;
        command := CASE WHEN NOT is_held THEN command END;
        RETURN NEXT;
        RETURN;
    END LOOP;
    PERFORM snowflake_adopt.rest_from_work(next.migration);
    UPDATE snowflake_adopt.migration SET done = past WHERE relation = m.relation;
    -- A swap deletes the migration itself.
    DELETE FROM snowflake_adopt.migration WHERE relation = m.relation AND goal = 'undone';
END
$$;
COMMENT ON FUNCTION snowflake_adopt.next(oid, boolean) IS
    'not to be called: what the background worker of a migration does next';

-- As pg_stat_activity would show it to the caller.
CREATE FUNCTION snowflake_adopt.state_of(a pg_stat_activity) RETURNS text
    LANGUAGE sql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT a.state WHERE pg_has_role(snowflake_adopt.caller(), 'pg_read_all_stats'::name, 'USAGE')
        OR pg_has_role(snowflake_adopt.caller(), a.usesysid, 'USAGE')
$$;
COMMENT ON FUNCTION snowflake_adopt.state_of(pg_stat_activity) IS
    'not to be called: the state of a process; NULL if the caller may not know it';

-- The oldest transaction with a lock on one of these tables, among these processes, or else among all others.
CREATE FUNCTION snowflake_adopt.lock_of_others(tables oid[], pids integer[]) RETURNS text
    LANGUAGE sql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('a lock on %s, which %s', l.relation::regclass,
        CASE WHEN gid IS NULL THEN concat('pid ', l.pid, ' has', ' (' || snowflake_adopt.state_of(a) || ')')
            ELSE format('the prepared transaction %L has', gid) END)
    FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
    -- Each transaction has a lock on its own ID.
    LEFT JOIN (pg_locks own JOIN pg_prepared_xacts ON transaction = own.transactionid)
        ON l.pid IS NULL AND own.pid IS NULL AND own.virtualtransaction = l.virtualtransaction
    WHERE l.locktype = 'relation' AND l.granted AND l.relation = ANY (tables)
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND CASE WHEN pids IS NULL THEN l.pid IS DISTINCT FROM pg_backend_pid() ELSE coalesce(l.pid, 0) = ANY (pids) END
    ORDER BY coalesce(xact_start, prepared), l.pid LIMIT 1
$$;
COMMENT ON FUNCTION snowflake_adopt.lock_of_others(oid[], integer[]) IS
    'not to be called: a lock on one of these tables, and who has it: one of these processes, or any other one if they '
    'are NULL';

-- CREATE INDEX CONCURRENTLY waits for transactions, whatever they have locked.
CREATE FUNCTION snowflake_adopt.waits_now(waiting integer) RETURNS text
    LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(snowflake_adopt.lock_of_others(ARRAY(SELECT relation FROM pg_locks WHERE pid = waiting
        AND NOT granted), pids),
        (SELECT 'the transaction of '
            || string_agg(concat('pid ', a.pid, ' (' || snowflake_adopt.state_of(a) || ')'), ', ')
            FROM pg_stat_activity a WHERE a.pid = ANY (pids)),
        'a prepared transaction')
    FROM (SELECT pg_blocking_pids(waiting)) b(pids) WHERE pids <> '{}'
$$;
COMMENT ON FUNCTION snowflake_adopt.waits_now(integer) IS
    'not to be called: for which lock or transaction of others a process waits at this moment; NULL if it does not '
    'wait';

-- Errors that pass: somebody holds a lock, or has cancelled the command, or there is no room for the moment.
CREATE FUNCTION snowflake_adopt.failed(migration oid, state text, message text, is_too_long boolean) RETURNS bigint
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
        SET lock_timeout = '10s' AS $$
DECLARE
    passes boolean := state IN ('55P03', '40P01', '40001', '57014', '55006') OR state LIKE '53%';
    is_repeated boolean := state = '23514' AND strpos(message, 'snowflake_adopt_equal') > 0;
    tried integer;
BEGIN
    -- Rows have moved or come where nobody looked for them: a partition that was attached, a table rewritten under the
    -- last batch, a trigger that was disabled for a while. So all rows are looked at again, but not for ever: nothing
    -- else would count these tries.
    -- mutant: migration-copies-again
    IF is_repeated THEN
        DELETE FROM snowflake_adopt.copying c WHERE c.migration = failed.migration;
    END IF;
    -- mutant: migration-stops-copying
    UPDATE snowflake_adopt.migration m
        SET failures = m.failures + 1, repeats = m.repeats + is_repeated::integer,
            error = CASE WHEN is_too_long THEN format('a step took longer than max_step, which is %s', m.max_step)
                ELSE message END,
            is_paused = m.is_paused OR is_too_long OR NOT passes AND m.failures >= 2 OR is_repeated AND m.repeats >= 2,
            waits_for = CASE state WHEN '55P03' THEN snowflake_adopt.lock_of_others(ARRAY(
                SELECT member::oid FROM snowflake_adopt.tables(failed.migration) t
                    CROSS JOIN LATERAL snowflake_adopt.members(t) member), NULL) END
        WHERE relation = migration RETURNING m.failures INTO tried;
    -- Others get their turn before the next try: 0.1 to 10 seconds, at random.
    RETURN (100 * least(2 ^ coalesce(tried, 1), 50) * (1 + random()))::bigint;
END
$$;
COMMENT ON FUNCTION snowflake_adopt.failed(oid, text, text, boolean) IS
    'not to be called: notes an error of the background worker of a migration; milliseconds until it tries again';
