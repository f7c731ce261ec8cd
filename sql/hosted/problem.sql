-- Why no ID can be issued: the states and errors of the extension where they mean the same.

-- For snowflake_take() to raise: an error raised by an inner function would have all functions as its context.
DO $$
BEGIN
    IF to_regtype('ids.snowflake_problem') IS NULL THEN
        CREATE TYPE ids.snowflake_problem AS (state text, code text, message text, detail text, hint text);
    END IF;
END
$$;
COMMENT ON TYPE ids.snowflake_problem IS 'not to be used: an error, with the state that snowflake_status shows';

-- NULL if the worker ID was set for this database, and not for one that it is a copy of.
CREATE OR REPLACE FUNCTION ids.snowflake_problem_of_database() RETURNS ids.snowflake_problem
    LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owned record;
BEGIN
    SELECT d.*, d.xmin::text AS xmin INTO owned FROM ids.snowflake_database d;
    IF ids.snowflake_worker_id() IS NULL OR owned IS NULL THEN
        RETURN ROW('worker unset', '55000', 'this database has no worker ID',
            'snowflake_set_worker_id() has not been called.',
            format('As its owner, call ids.snowflake_set_worker_id(n) with a number from 0 to %s that no other '
                'database and no other server has.',
                ~(-1::bigint << (ids.snowflake_own_fields()).worker_bits)))::ids.snowflake_problem;
    ELSIF pg_is_in_recovery() THEN
        RETURN ROW('standby', '25006', 'cannot issue IDs during recovery',
            'This server is a standby, or has not finished its recovery.',
            'Connect to the primary. IDs can be decoded on this server.')::ids.snowflake_problem;
    ELSIF owned.database <> 0 AND (owned.database <> (SELECT oid FROM pg_database WHERE datname = current_database())
        OR owned.relation <> 'ids.snowflake_database'::regclass
            OR owned.system_identifier <> (SELECT system_identifier FROM pg_control_system())
            -- mutant: hosted-upgraded
            AND (owned.inserted_by::xid::text <> owned.xmin OR owned.catalog_xmin = ids.snowflake_catalog_xmin())
        OR nullif(split_part(ids.snowflake_registration(), ' ', 2), '') <> ids.snowflake_directory_made()::text) THEN
        RETURN ROW('not started', '55000', 'this database is a copy of another one with the same worker ID',
            format('Worker %s was set in the database that this one was restored or copied from.',
                ids.snowflake_worker_id()),
            'As its owner, call ids.snowflake_set_worker_id(n) with another number, or with the same one if the other '
            'database no longer issues IDs.')::ids.snowflake_problem;
    -- A transaction can have a snapshot from before the row.
    ELSIF owned.database = 0 OR ids.snowflake_registration() IS NULL OR ids.snowflake_is_set_back() THEN
        RETURN ROW('not started', '55000', 'the position of the last ID may have been set back',
            'A dump was restored into this database, or setval() was called.',
            format('As its owner, call ids.snowflake_set_worker_id(%s).',
                ids.snowflake_worker_id()))::ids.snowflake_problem;
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION ids.snowflake_problem_of_database() IS 'not to be called: why this database may issue no IDs';

-- Why no ID can be issued at this time.
CREATE OR REPLACE FUNCTION ids.snowflake_problem_of_clock(ms bigint) RETURNS ids.snowflake_problem
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f ids.snowflake_fields := ids.snowflake_own_fields();
    last bigint := f.epoch + (ids.snowflake_last() >> f.sequence_bits) * f.tick_ms;
    clock text := format('The clock shows %s', ids.snowflake_display_time(ms));
BEGIN
    IF ms < f.epoch THEN
        RETURN ROW('outside the layout', '55000', 'the server''s clock is before the epoch of the layout',
            format('%s, and the epoch is %s.', clock, ids.snowflake_display_time(f.epoch)),
            'Set the clock.')::ids.snowflake_problem;
    ELSIF ms > f.issues_until THEN
        RETURN ROW('outside the layout', '2200H', 'reached the last timestamp of the layout',
            format('%s, and the last timestamp is %s.', clock,
                ids.snowflake_display_time(f.epoch + f.tick_ms * f.last_tick)),
                'Check the clock.')::ids.snowflake_problem;
    END IF;
    RETURN ROW('clock behind', '53400', 'the server''s clock is too far behind the last ID issued',
        format('%s, the last timestamp issued is %s; IDs are at most %s ms ahead, and a call waits for at most %s ms.',
            clock, ids.snowflake_display_time(last),
            ids.snowflake_max_ahead_ms(), ids.snowflake_max_wait_ms()),
        format('Check the clock. IDs will be issued again once it reaches %s. After a large batch, ask for the next '
            'one later.',
            ids.snowflake_display_time(last - ids.snowflake_max_ahead_ms()
                - ids.snowflake_max_wait_ms())))::ids.snowflake_problem;
END
$$;
COMMENT ON FUNCTION ids.snowflake_problem_of_clock(bigint) IS 'not to be called: why no ID is issued at this time';

-- Why a call for count positions gets none, whatever the clock shows.
CREATE OR REPLACE FUNCTION ids.snowflake_problem_of_call(count bigint) RETURNS ids.snowflake_problem
    LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF pg_is_in_recovery() THEN
        RETURN ids.snowflake_problem_of_database();
    ELSIF current_setting('transaction_read_only') = 'on' THEN
        RETURN ROW(NULL, '25006', 'cannot issue IDs in a read-only transaction', 'An ID changes a sequence.',
            'Ask for IDs in a transaction that may write.')::ids.snowflake_problem;
    END IF;
    RETURN ROW(NULL, '22023', format('count must be between 1 and %s', ids.snowflake_max_count()),
        format('The count is %s.', count),
        'Ask for fewer IDs at a time.')::ids.snowflake_problem;
END
$$;
COMMENT ON FUNCTION ids.snowflake_problem_of_call(bigint) IS 'not to be called: why a call gets no IDs';
