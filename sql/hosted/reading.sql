-- Reading by ID: the horizon, and polls.
--
-- A transaction has its transaction ID before it moves the position: see snowflake_set_last(). So whoever may still
-- insert rows up to a position is among the transactions that run after it was read. When they have ended, no row below
-- is still to come. A snapshot does not show them: its xmax is above what has ended, and transactions run above that.

-- The position up to which all transactions have ended; a later one, and the greatest ID of the transactions that ran
-- when it was read. A crash or a failover empties them: no transaction runs after it but those that were prepared.
CREATE UNLOGGED SEQUENCE IF NOT EXISTS ids.snowflake_settled AS bigint MINVALUE 0 START 0;
CREATE UNLOGGED SEQUENCE IF NOT EXISTS ids.snowflake_pending AS bigint MINVALUE 0 START 0;
CREATE UNLOGGED SEQUENCE IF NOT EXISTS ids.snowflake_pending_until AS bigint MINVALUE 0 START 0;
COMMENT ON SEQUENCE ids.snowflake_settled IS 'position below the horizon; not to be changed';
COMMENT ON SEQUENCE ids.snowflake_pending IS 'position that will be below the horizon; not to be changed';
COMMENT ON SEQUENCE ids.snowflake_pending_until IS 'transaction up to which all must end before; not to be changed';

-- Locked by the session that changes these three, as snowflake_lock is for the position.
CREATE OR REPLACE VIEW ids.snowflake_horizon_lock AS SELECT;
COMMENT ON VIEW ids.snowflake_horizon_lock IS 'not to be used: sessions that read the horizon lock it';
REVOKE ALL ON SEQUENCE ids.snowflake_settled, ids.snowflake_pending, ids.snowflake_pending_until FROM PUBLIC;
REVOKE ALL ON ids.snowflake_horizon_lock FROM PUBLIC;

-- A transaction ID of 32 bits with the rest that a near one has.
CREATE OR REPLACE FUNCTION ids.snowflake_whole_xid(transaction xid, near bigint) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN near + (((transaction::text::bigint - near + 2147483648) & 4294967295) - 2147483648);
COMMENT ON FUNCTION ids.snowflake_whole_xid(xid, bigint) IS 'not to be called: a transaction ID of 64 bits';

-- The least and the greatest ID of the transactions that run on this server, but for this one. Each holds a lock on
-- its ID, also if it was prepared, from before it uses the ID until others see that it has ended. Every role sees all
-- locks.
CREATE OR REPLACE FUNCTION ids.snowflake_running(OUT oldest bigint, OUT newest bigint)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT min(id), max(id) FROM (
        SELECT ids.snowflake_whole_xid(transactionid, pg_snapshot_xmax(pg_current_snapshot())::text::bigint) AS id
            FROM pg_locks WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock'
                -- mutant: hosted-prepared-holds
                AND pid IS DISTINCT FROM pg_backend_pid()) running
$$;
COMMENT ON FUNCTION ids.snowflake_running() IS
    'not to be called: the least and the greatest ID of other transactions that run on this server';

-- Begins a session that only reads. If asked to, moves the position of an idle database to the end of the last tick,
-- unless another session issues IDs. Returns NULL, or why this database issues none. The last ID of this session
-- remains what it is. Messages for developers would wait for the client, with the lock.
CREATE OR REPLACE FUNCTION ids.snowflake_follow_clock(moves boolean) RETURNS ids.snowflake_problem
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET client_min_messages = notice
    AS $$
DECLARE
    f ids.snowflake_fields := ids.snowflake_own_fields();
    problem ids.snowflake_problem;
    own_last bigint;
    ms bigint;
    past bigint;
BEGIN
    IF ids.snowflake_is_checked()
        AND (NOT moves OR ids.snowflake_last() >= ids.snowflake_tick(ids.snowflake_unix_ms(), f) - 1) THEN
        RETURN NULL;
    END IF;
    BEGIN
        own_last := ids.snowflake_lastval();
    EXCEPTION WHEN object_not_in_prerequisite_state THEN
    END;
    IF NOT ids.snowflake_is_checked() THEN
        problem := ids.snowflake_begin_session();
        IF problem.message IS NOT NULL THEN
            RETURN problem;
        END IF;
    END IF;
    IF moves THEN
        BEGIN
            LOCK TABLE ids.snowflake_lock IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
            ms := ids.snowflake_unix_ms();
            past := ids.snowflake_tick(ms, f) - 1;
            IF ms BETWEEN f.epoch AND f.issues_until AND (SELECT log_cnt > 0 FROM ids.snowflake_began)
                AND coalesce(ids.snowflake_last_of_both(ms, f), -1) < past
            THEN
                PERFORM ids.snowflake_set_last(past);
            END IF;
            RAISE SQLSTATE 'SN000';
        EXCEPTION WHEN SQLSTATE 'SN000' OR lock_not_available THEN
        END;
    END IF;
    BEGIN
        PERFORM set_config('hosted_snowflake.block', ids.snowflake_id_at(
            currval('ids.snowflake_position'::regclass), f) || ' ' || coalesce(own_last::text, ''), false);
    EXCEPTION WHEN object_not_in_prerequisite_state THEN
        -- This session has neither issued an ID nor moved the position.
    END;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION ids.snowflake_follow_clock(boolean) IS
    'not to be called: begins a session that reads, and moves the position of an idle database';

-- Takes note of the transactions that run, the oldest and the newest by their IDs. They were looked up after this
-- position was read, and after the one that was pending. Returns the position up to which all have ended; NULL if none
-- is known. The lock is released as in snowflake_take().
CREATE OR REPLACE FUNCTION ids.snowflake_settle(was_pending bigint, id_position bigint, oldest bigint, newest bigint)
    RETURNS bigint
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET client_min_messages = notice
    AS $$
DECLARE
    settled bigint;
    pending bigint;
BEGIN
    LOCK TABLE ids.snowflake_horizon_lock IN SHARE UPDATE EXCLUSIVE MODE;
    settled := pg_sequence_last_value('ids.snowflake_settled'::regclass);
    pending := pg_sequence_last_value('ids.snowflake_pending'::regclass);
    -- mutant: hosted-pending-ended
    IF pending = was_pending AND oldest > pg_sequence_last_value('ids.snowflake_pending_until'::regclass) THEN
        settled := setval('ids.snowflake_settled'::regclass, greatest(settled, pending));
    END IF;
    IF oldest IS NULL THEN
        settled := setval('ids.snowflake_settled'::regclass, greatest(settled, id_position));
    ELSIF (settled >= pending) IS NOT FALSE THEN
        -- In this order: the session may end in between.
        PERFORM setval('ids.snowflake_pending_until'::regclass, newest);
        PERFORM setval('ids.snowflake_pending'::regclass, id_position);
    END IF;
    RAISE SQLSTATE 'SN000';
EXCEPTION WHEN SQLSTATE 'SN000' THEN
    RETURN settled;
END
$$;
COMMENT ON FUNCTION ids.snowflake_settle(bigint, bigint, bigint, bigint) IS
    'not to be called: the position up to which all transactions have ended';

-- NULL before the first ID, and before the transactions have ended that ran when it was asked for first. A poll moves
-- nothing: that takes a transaction ID, and others that wait would wait for it.
CREATE OR REPLACE FUNCTION ids.snowflake_read_horizon(function text) RETURNS bigint
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- It may have rows that only it sees.
    own CONSTANT bigint := pg_current_xact_id_if_assigned()::text::bigint;
    problem ids.snowflake_problem;
    pending bigint;
    last bigint;
    running record;
    settled bigint;
BEGIN
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
            MESSAGE = format('%s cannot be used in a REPEATABLE READ or SERIALIZABLE transaction', function),
            DETAIL = 'The transaction does not see rows committed after its first statement, even below the horizon.',
            HINT = 'Use READ COMMITTED, or read the horizon in an earlier transaction.';
    ELSIF pg_is_in_recovery() THEN
        RAISE EXCEPTION USING ERRCODE = 'read_only_sql_transaction',
            MESSAGE = format('cannot execute %s during recovery', function),
            DETAIL = 'A standby does not know which transactions run on its primary.',
            HINT = 'Connect to the primary.';
    ELSIF current_setting('transaction_read_only') = 'on' THEN
        RAISE EXCEPTION USING ERRCODE = 'read_only_sql_transaction',
            MESSAGE = format('cannot execute %s in a read-only transaction', function),
            DETAIL = 'The horizon is kept in sequences.', HINT = 'Use a transaction that may write.';
    END IF;
    last := ids.snowflake_last();
    IF last IS NULL OR (SELECT log_cnt = 0 FROM ids.snowflake_began) THEN
        problem := ids.snowflake_problem_of_database();
    END IF;
    -- Before the first ID, the layout can still be chosen.
    IF problem.message IS NULL AND last IS NOT NULL THEN
        -- mutant: hosted-poll-moves
        problem := ids.snowflake_follow_clock(function = 'snowflake_horizon()');
    END IF;
    IF problem.message IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = problem.code, MESSAGE = problem.message, DETAIL = problem.detail,
            HINT = problem.hint;
    END IF;
    pending := pg_sequence_last_value('ids.snowflake_pending'::regclass);
    last := ids.snowflake_last();
    SELECT * INTO running FROM ids.snowflake_running();
    -- mutant: hosted-position-before-transactions
    -- mutant: hosted-own-holds
    settled := ids.snowflake_settle(pending, last, least(running.oldest, own), greatest(running.newest, own));
    RETURN ids.snowflake_id_at(CASE WHEN running.oldest IS NULL THEN last ELSE settled END + 1,
        ids.snowflake_own_fields());
END
$$;
COMMENT ON FUNCTION ids.snowflake_read_horizon(text) IS
    'not to be called directly: the horizon, for a function that errors name';

CREATE OR REPLACE FUNCTION ids.snowflake_horizon() RETURNS bigint
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ids.snowflake_read_horizon('snowflake_horizon()');
END
$$;
COMMENT ON FUNCTION ids.snowflake_horizon() IS
    'ID below which no row can appear any more: every transaction of this database that has drawn a smaller ID has '
    'ended; read it in a statement before the query';

CREATE OR REPLACE FUNCTION ids.snowflake_poll_query(row_type regtype, after bigint, max_rows integer, column_name name,
        wait interval) RETURNS text
    LANGUAGE plpgsql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    source record;
    key record;
BEGIN
    SELECT relnamespace::regnamespace AS home, relname, oid, relkind INTO source FROM pg_class
        WHERE oid = (SELECT typrelid FROM pg_type WHERE oid = row_type) AND relkind <> 'c';
    IF source IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'wrong_object_type',
            MESSAGE = format('%s is not the row type of a table', row_type),
            HINT = 'Name the table by its type, as in snowflake_poll(NULL::orders, 0).';
    ELSIF source.relkind IN ('f', 'm') THEN
        RAISE EXCEPTION USING ERRCODE = 'wrong_object_type',
            MESSAGE = format('"%s" is a %s, and cannot be polled', source.relname,
                CASE source.relkind WHEN 'f' THEN 'foreign table' ELSE 'materialized view' END),
            DETAIL = CASE source.relkind
                WHEN 'f' THEN 'This server''s horizon says nothing about the rows of another server.'
                ELSE 'Rows appear in it when it is refreshed.' END,
            HINT = 'Poll the table where its rows are inserted.';
    ELSIF after IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'after must not be null',
            HINT = 'Begin with 0.';
    ELSIF max_rows IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'max_rows must not be null';
    ELSIF wait NOT BETWEEN interval '0' AND interval '1 minute' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'wait must be between 0 and 1 minute',
            DETAIL = format('The value is %s.', wait), HINT = 'Call again if no row is returned.';
    -- mutant: hosted-poll-of-writer
    ELSIF wait > interval '0' AND pg_current_xact_id_if_assigned() IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'active_sql_transaction',
            MESSAGE = 'snowflake_poll() cannot wait in a transaction that has written',
            DETAIL = 'While it waits, the transaction holds the horizon back.',
            HINT = 'Poll before anything is inserted or locked.';
    ELSIF max_rows < 1 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'max_rows must be greater than 0',
            DETAIL = format('The value is %s.', max_rows);
    END IF;
    SELECT attname, format_type(atttypid, NULL) AS kind,
            -- A domain can be over another one.
            'bigint'::regtype IN (WITH RECURSIVE base AS (SELECT atttypid AS type UNION ALL
                SELECT typbasetype FROM base JOIN pg_type ON oid = type AND typtype = 'd') SELECT type FROM base)
                AS is_bigint INTO key
        FROM pg_attribute LEFT JOIN pg_index ON indrelid = attrelid AND indisprimary AND indnkeyatts = 1
        WHERE attrelid = source.oid AND attnum > 0 AND NOT attisdropped
            AND CASE WHEN column_name IS NULL THEN attnum = indkey[0] ELSE attname = column_name END;
    IF key IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_column',
            MESSAGE = CASE WHEN column_name IS NULL
                THEN format('relation "%s" has no primary key of one column', source.relname)
                ELSE format('column "%s" of relation "%s" does not exist', column_name, source.relname) END,
            HINT = 'Name the column of the IDs, as in column_name => ''id''.';
    ELSIF NOT key.is_bigint THEN
        RAISE EXCEPTION USING ERRCODE = 'datatype_mismatch',
            MESSAGE = format('column "%s" of relation "%s" is not a bigint', key.attname, source.relname),
            DETAIL = format('It is of type %s.', key.kind);
    END IF;
    RETURN format('SELECT * FROM %s.%I WHERE %3$I OPERATOR(pg_catalog.>) $1 AND %3$I '
        -- mutant: hosted-poll-snapshot
        'OPERATOR(pg_catalog.<) $2 ORDER BY %3$I FETCH FIRST %4$s ROWS WITH TIES', source.home, source.relname,
        key.attname, max_rows);
END
$$;
COMMENT ON FUNCTION ids.snowflake_poll_query(regtype, bigint, integer, name, interval) IS
    'not to be called directly: the query of a poll, for rows above $1 and below $2';

-- Whether a poll ends without rows: then, or if somebody waits for a lock of the table, and all others behind. Or if it
-- has a transaction ID, as the first session after a start: others would wait for it.
CREATE OR REPLACE FUNCTION ids.snowflake_poll_ends(row_type regtype, at timestamptz) RETURNS boolean
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (clock_timestamp() < at) IS NOT TRUE
        -- mutant: hosted-poll-of-first-session
        OR pg_current_xact_id_if_assigned() IS NOT NULL
        -- mutant: hosted-poll-makes-way
        OR EXISTS (SELECT FROM pg_locks WHERE NOT granted
            AND relation = (SELECT typrelid FROM pg_type WHERE oid = row_type)
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
    THEN
        RETURN true;
    END IF;
    PERFORM pg_sleep(least(extract(epoch FROM at - clock_timestamp())::float8, 0.1));
    RETURN false;
END
$$;
COMMENT ON FUNCTION ids.snowflake_poll_ends(regtype, timestamptz) IS
    'not to be called directly: whether a poll that waits ends without rows; it sleeps if not';

-- Its query runs with the search_path of the caller, as views and policies expect.
CREATE OR REPLACE FUNCTION ids.snowflake_poll(relation anyelement, after bigint, max_rows integer DEFAULT 1000,
        column_name name DEFAULT NULL, wait interval DEFAULT NULL) RETURNS SETOF anyelement
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 1000 AS $$
DECLARE
    row_type CONSTANT pg_catalog.regtype := pg_catalog.pg_typeof(relation);
    query CONSTANT pg_catalog.text := ids.snowflake_poll_query(row_type, after, max_rows, column_name, wait);
    ends CONSTANT pg_catalog.timestamptz := pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) wait;
    horizon pg_catalog.int8;
BEGIN
    LOOP
        -- The horizon first, and then a snapshot.
        horizon := ids.snowflake_read_horizon('snowflake_poll()'::pg_catalog.text);
        RETURN QUERY EXECUTE query USING after, horizon;
        EXIT WHEN FOUND;
        EXIT WHEN ids.snowflake_poll_ends(row_type, ends);
    END LOOP;
END
$$;
COMMENT ON FUNCTION ids.snowflake_poll(anyelement, bigint, integer, name, interval) IS
    'rows of a table after an ID, in order and below the horizon, so a reader that continues after the last one misses '
    'none; waits for rows, if asked to: SELECT * FROM snowflake_poll(NULL::orders, 0, wait => ''10 s'')';

-- Each holds the lock on its transaction ID, and one on that of each subtransaction that has written.
CREATE OR REPLACE VIEW ids.snowflake_writers AS
    SELECT pid, gid, NULL::bigint AS first_id, NULL::timestamptz AS first_id_at,
           coalesce(datname, p.database) AS datname, coalesce(usename, owner) AS usename, application_name, state,
           xact_start, query
    FROM (SELECT DISTINCT ON (virtualtransaction) pid, transactionid AS transaction FROM pg_locks
            WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock'
            ORDER BY virtualtransaction, age(transactionid) DESC) writers
        LEFT JOIN pg_stat_activity USING (pid)
        LEFT JOIN pg_prepared_xacts p USING (transaction)
    ORDER BY age(transaction) DESC;
GRANT SELECT ON ids.snowflake_writers TO PUBLIC;
COMMENT ON VIEW ids.snowflake_writers IS
    'transactions of this server that have written and have not ended: the first one holds back snowflake_horizon()';
COMMENT ON COLUMN ids.snowflake_writers.pid IS 'process ID; NULL for a prepared transaction';
COMMENT ON COLUMN ids.snowflake_writers.gid IS 'name of a prepared transaction';
COMMENT ON COLUMN ids.snowflake_writers.first_id IS 'NULL: only servers with the library know it';
COMMENT ON COLUMN ids.snowflake_writers.first_id_at IS 'NULL: only servers with the library know it';
