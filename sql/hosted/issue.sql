-- One ID.

-- The parts of snowflake_take(), which the planner inlines there. Their names were looked up when the script ran, so it
-- needs no search_path: setting one would double the time of a call.

CREATE OR REPLACE FUNCTION ids.snowflake_is_checked() RETURNS boolean
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
    RETURN coalesce(current_setting('hosted_snowflake.session', true) = 'ids.snowflake_began'::regclass::oid::text
        || ' ' || ids.snowflake_registration(), false);
COMMENT ON FUNCTION ids.snowflake_is_checked() IS 'not to be called: whether snowflake_begin_session() was called';

-- If the owner alters a sequence, a call waits here, and not while others wait for the lock.
CREATE OR REPLACE FUNCTION ids.snowflake_is_writable(count bigint) RETURNS boolean
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
    -- mutant: hosted-count
    RETURN CASE WHEN current_setting('transaction_read_only') = 'off' AND count BETWEEN 1 AND ids.snowflake_max_count()
        THEN greatest(pg_sequence_last_value('ids.snowflake_position'::regclass),
            pg_sequence_last_value('ids.snowflake_high_water_mark'::regclass), 0) >= 0 END;
COMMENT ON FUNCTION ids.snowflake_is_writable(bigint) IS
    'not to be called: NULL in a transaction that only reads, and for a number of positions that cannot be taken';

-- Under the lock: takes count positions after the last one at a time of the clock, or none if that is NULL. Returns the
-- last one, or -1 if they would be too far ahead. chance, from 0 to 1, chooses the first number of a tick.
--
-- If this session has set a position before, as has_begun says, returns -2 if others have set it back since, and -3 if
-- that was more than a second ago: then an older position can have been restored without being below it.
CREATE OR REPLACE FUNCTION ids.snowflake_move(count bigint, last bigint, ms bigint, has_begun boolean, chance float8,
    f ids.snowflake_fields) RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
    RETURN CASE
        -- mutant: hosted-own-last
        WHEN has_begun AND coalesce(last, -1) < currval('ids.snowflake_high_water_mark'::regclass) THEN -2
        WHEN has_begun AND currval('ids.snowflake_high_water_mark'::regclass) < ids.snowflake_tick(ms - 1000, f) THEN -3
        WHEN ms NOT BETWEEN f.epoch AND f.issues_until THEN -1
        -- mutant: hosted-ahead
        WHEN greatest(last, ids.snowflake_tick(ms, f) + (1::bigint << f.sequence_bits))
            > ids.snowflake_tick(ms + ids.snowflake_max_ahead_ms(), f) - count THEN -1
        -- mutant: hosted-clock-back
        WHEN last >= ids.snowflake_tick(ms, f) THEN ids.snowflake_set_last(last + count)
        ELSE ids.snowflake_set_last(ids.snowflake_tick(ms, f) + count - 1
            + floor(chance * (1::bigint << f.sequence_bits)::float8)::bigint) END;
COMMENT ON FUNCTION ids.snowflake_move(bigint, bigint, bigint, boolean, float8, ids.snowflake_fields) IS
    'not to be called: takes positions, under the lock';

CREATE OR REPLACE FUNCTION ids.snowflake_id_at(id_position bigint, f ids.snowflake_fields) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN ((id_position >> f.sequence_bits) << f.timestamp_shift)
        | ((id_position & ~(-1::bigint << f.sequence_bits)) << f.sequence_shift)
        | (ids.snowflake_worker_id()::bigint << f.worker_shift)
        | (ids.snowflake_datacenter_id()::bigint << f.datacenter_shift);
COMMENT ON FUNCTION ids.snowflake_id_at(bigint, ids.snowflake_fields) IS 'not to be called: the ID at a position';

-- Waits a little for the clock to come near enough for count positions; NULL if that would take too long. since is when
-- this call began to wait: NULL the first time, and then what this function has returned.
CREATE OR REPLACE FUNCTION ids.snowflake_wait_for_clock(count bigint, ms bigint, since timestamptz) RETURNS timestamptz
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f ids.snowflake_fields := ids.snowflake_own_fields();
    tick bigint := 1::bigint << f.sequence_bits;
    missing numeric := greatest(ids.snowflake_last(), ids.snowflake_tick(ms, f) + tick)::numeric + count
        - ids.snowflake_tick(ms + ids.snowflake_max_ahead_ms(), f);
    missing_ms numeric := ceil(missing / tick) * f.tick_ms;
BEGIN
    -- The 10 seconds are for a call that waits again and again, as other sessions take what it has waited for.
    IF ms NOT BETWEEN f.epoch AND f.issues_until OR missing_ms > ids.snowflake_max_wait_ms()
        OR clock_timestamp() > since + interval '10 seconds' THEN
        RETURN NULL;
    END IF;
    PERFORM pg_sleep((greatest(least(missing_ms, 100), 1) / 1000)::float8);
    RETURN coalesce(since, clock_timestamp());
END
$$;
COMMENT ON FUNCTION ids.snowflake_wait_for_clock(bigint, bigint, timestamptz) IS
    'not to be called: waits for the clock';

-- Before the first ID of a session, with the rights of snowflake_take(): checks whose the worker ID is, and whether the
-- server has been restarted. Returns NULL, or why no ID can be issued.
CREATE OR REPLACE FUNCTION ids.snowflake_begin_session() RETURNS ids.snowflake_problem
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f ids.snowflake_fields := ids.snowflake_own_fields();
    problem ids.snowflake_problem := ids.snowflake_problem_of_database();
    registration text := ids.snowflake_registration();
    start bigint := ids.snowflake_start();
    ms bigint := ids.snowflake_unix_ms();
BEGIN
    -- mutant: hosted-copy
    IF problem.message IS NOT NULL THEN
        RETURN problem;
    ELSIF ms NOT BETWEEN f.epoch AND f.issues_until THEN
        RETURN ids.snowflake_problem_of_clock(ms);
    END IF;
    -- setval() looks them up once in a session.
    PERFORM pg_sequence_parameters('ids.snowflake_position'::regclass),
        pg_sequence_parameters('ids.snowflake_high_water_mark'::regclass);
    IF pg_sequence_last_value('ids.snowflake_began'::regclass) IS DISTINCT FROM start THEN
        -- No ID was further ahead of the clock.
        -- mutant: hosted-after-crash
        PERFORM ids.snowflake_raise(ms + ids.snowflake_max_ahead_ms(), NULL, start);
    END IF;
    PERFORM set_config('hosted_snowflake.session', 'ids.snowflake_began'::regclass::oid::text || ' ' || registration,
        false);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION ids.snowflake_begin_session() IS
    'not to be called: what is checked before the first ID of a session';

-- Takes count positions, and returns the last ID. It names everything with its schema.
--
-- The lock cannot outlive the block: whatever ends the block rolls its subtransaction back, and so releases the lock.
-- Sequences and variables are not rolled back. So a call that succeeds ends the block by an error, too. Nobody waits
-- for a transaction to end.
CREATE OR REPLACE FUNCTION ids.snowflake_take(count bigint) RETURNS bigint
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER AS $$
DECLARE
    -- mutant: hosted-first-call
    is_checked pg_catalog.bool := ids.snowflake_is_checked();
    -- Whether this session has taken an ID since it was checked.
    has_begun pg_catalog.bool := is_checked;
    has_lock pg_catalog.bool := false;
    is_queued pg_catalog.bool := false;
    queues_from pg_catalog.timestamptz;
    tries pg_catalog.int4 := 0;
    last pg_catalog.int8;
    ms pg_catalog.int8;
    taken pg_catalog.int8;
    id pg_catalog.int8;
    waiting pg_catalog.timestamptz;
    problem ids.snowflake_problem;
BEGIN
    IF ids.snowflake_is_writable(count) IS NULL THEN
        problem := ids.snowflake_problem_of_call(count);
        RAISE EXCEPTION USING ERRCODE = problem.code, MESSAGE = problem.message, DETAIL = problem.detail,
            HINT = problem.hint;
    END IF;
    LOOP
        BEGIN
            -- The first time in a session without the lock, and taking nothing: what has to be looked up in catalogs
            -- can wait there.
            IF NOT is_checked THEN
                LOCK TABLE ids.snowflake_lock IN ACCESS SHARE MODE;
            ELSIF queues_from OPERATOR(pg_catalog.<) pg_catalog.clock_timestamp() THEN
                is_queued := true;
                LOCK TABLE ids.snowflake_lock IN SHARE UPDATE EXCLUSIVE MODE;
            ELSE
                -- mutant: hosted-lock
                LOCK TABLE ids.snowflake_lock IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
            END IF;
            has_lock := true;
            -- Again: the worker may have been set while this waited.
            is_checked := is_checked AND ids.snowflake_is_checked();
            -- mutant: hosted-names
            ms := CASE WHEN is_checked THEN ids.snowflake_unix_ms() END;
            last := ids.snowflake_last();
            taken := CASE WHEN has_begun AND is_checked
                THEN ids.snowflake_move(count, last, ms, true, pg_catalog.random(), ids.snowflake_own_fields())
                ELSE -3 END;
            -- Under the lock, since snowflake_begin_session() may be long ago.
            IF taken OPERATOR(pg_catalog.=) -3 THEN
                -- mutant: hosted-rested
                is_checked := (SELECT log_cnt OPERATOR(pg_catalog.>) 0 FROM ids.snowflake_began) AND is_checked;
                last := ids.snowflake_last_of_both(CASE WHEN is_checked THEN ms END, ids.snowflake_own_fields());
                taken := ids.snowflake_move(count, last, CASE WHEN is_checked THEN ms END, false, pg_catalog.random(),
                    ids.snowflake_own_fields());
            END IF;
            id := ids.snowflake_id_at(taken, ids.snowflake_own_fields());
            -- mutant: hosted-lock-ends
            RAISE SQLSTATE 'SN000';
        EXCEPTION
            WHEN SQLSTATE 'SN000' THEN
            WHEN lock_not_available THEN
                IF has_lock OR is_queued OR NOT is_checked THEN
                    RAISE;
                END IF;
                -- A second later: sessions that queue are slower, as each has to be woken up with the lock.
                queues_from := coalesce(queues_from,
                    pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) '1 second'::pg_catalog.interval);
                tries := tries OPERATOR(pg_catalog.+) 1;
                PERFORM pg_catalog.pg_sleep(CASE WHEN tries OPERATOR(pg_catalog.>) 3 THEN 0.001 ELSE 0 END);
                CONTINUE;
            WHEN object_not_in_prerequisite_state THEN
                -- There is no currval() after DISCARD SEQUENCES, or if the first call has failed.
                -- mutant: hosted-discard
                IF NOT has_begun THEN
                    RAISE;
                END IF;
                is_checked := false;
        END;
        has_lock := false;
        IF is_checked AND taken OPERATOR(pg_catalog.>=) 0 THEN
            RETURN id;
        ELSIF is_checked AND taken OPERATOR(pg_catalog.=) -1 THEN
            waiting := ids.snowflake_wait_for_clock(count, ms, waiting);
            problem := CASE WHEN waiting IS NULL THEN ids.snowflake_problem_of_clock(ms) END;
        ELSE
            IF is_checked THEN
                -- So all other sessions refuse as well.
                -- mutant: hosted-refuses
                PERFORM ids.snowflake_refuse();
            END IF;
            problem := ids.snowflake_begin_session();
            is_checked := true;
            has_begun := false;
        END IF;
        IF problem.message IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = problem.code, MESSAGE = problem.message, DETAIL = problem.detail,
                HINT = problem.hint;
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION ids.snowflake_take(bigint) IS
    'not to be called directly: takes a number of adjacent positions, and returns the last ID';

CREATE OR REPLACE FUNCTION ids.snowflake_nextval() RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
    RETURN ids.snowflake_take(1::bigint);
COMMENT ON FUNCTION ids.snowflake_nextval() IS 'next Snowflake ID';

CREATE OR REPLACE FUNCTION ids.snowflake_id() RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
    RETURN ids.snowflake_take(1::bigint);
COMMENT ON FUNCTION ids.snowflake_id() IS
    'next Snowflake ID: snowflake_nextval() under another name, for tools that mistake "nextval" in a default for a '
    'sequence';
