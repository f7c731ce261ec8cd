-- For people

CREATE OR REPLACE VIEW snowflake_registry.workers AS
    SELECT l.worker_id,
        CASE
            WHEN l.rule = 'forbidden' THEN 'forbidden'
            WHEN snowflake_registry.time_of(l.granted_until) > clock_timestamp() AND l.token IS NOT NULL THEN 'leased'
            WHEN snowflake_registry.time_of(l.granted_until) > clock_timestamp() THEN 'waiting'
            WHEN l.rule = 'reserved' THEN 'reserved'
            ELSE 'free'
        END AS state,
        l.server, l.system_identifier, l.host, l.port, l.address, l.role, l.layout, l.leased_at, l.renewed_at,
        CASE WHEN l.granted_until > 0 THEN snowflake_registry.time_of(l.granted_until) END AS granted_until,
        CASE WHEN l.issued_until > 0 THEN snowflake_registry.time_of(l.issued_until) END AS issued_until,
        l.clock_offset_ms * interval '1 ms' AS clock_offset, l.comment
    FROM snowflake_registry.lease l
    ORDER BY l.worker_id;
COMMENT ON VIEW snowflake_registry.workers IS 'workers that are or were leased, with the server that has or had each';
COMMENT ON COLUMN snowflake_registry.workers.state IS
    'leased; free; waiting (released by hand, and its old IDs may reach granted_until); reserved (for a server that is '
    'configured with the number); forbidden';
COMMENT ON COLUMN snowflake_registry.workers.granted_until IS
    'timestamps of its IDs are below this time; the next server begins there';
COMMENT ON COLUMN snowflake_registry.workers.issued_until IS
    'timestamps of its IDs were below this time when the server reported last';
COMMENT ON COLUMN snowflake_registry.workers.clock_offset IS
    'how far the clock of the server was ahead of the registry''s';

CREATE OR REPLACE VIEW snowflake_registry.status AS
    SELECT r.registry_version, r.longest_lease_ms * interval '1 ms' AS longest_lease,
        CASE WHEN r.restored_at > 0 THEN snowflake_registry.time_of(r.restored_at) END AS restored_at,
        CASE WHEN snowflake_registry.time_of(r.not_before) > clock_timestamp()
            THEN snowflake_registry.time_of(r.not_before) END AS recovering_until,
        (SELECT array_agg(DISTINCT k.pid) FROM pg_locks k JOIN pg_stat_activity a USING (pid)
            WHERE k.relation = 'snowflake_registry.lease'::regclass AND k.mode IN ('RowShareLock', 'RowExclusiveLock')
                AND k.granted
                AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
                AND a.xact_start < clock_timestamp() - interval '10 seconds') AS held_up_by
    FROM snowflake_registry.registry r;
COMMENT ON VIEW snowflake_registry.status IS 'one row: the registry itself';
COMMENT ON COLUMN snowflake_registry.status.longest_lease IS
    'how far ahead of the registry''s clock leases reach at most';
COMMENT ON COLUMN snowflake_registry.status.restored_at IS
    'when it was noticed that the registry was restored or has failed over; NULL for never, or after end_recovery()';
COMMENT ON COLUMN snowflake_registry.status.held_up_by IS
    'processes whose transaction on leases has been open for ten seconds: nobody sees or gets the workers that it '
    'leases';
COMMENT ON COLUMN snowflake_registry.status.recovering_until IS
    'no worker is leased to another server before this time, since leases may have been lost; NULL at other times';

CREATE OR REPLACE FUNCTION snowflake_registry.check_worker(worker bigint) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (worker BETWEEN 0 AND 2147483647) IS NOT TRUE THEN
        RAISE EXCEPTION 'worker must be between 0 and 2147483647' USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;
COMMENT ON FUNCTION snowflake_registry.check_worker(bigint) IS 'raise an error if this cannot be a worker';

CREATE OR REPLACE FUNCTION snowflake_registry.check_workers(first bigint, last bigint) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM snowflake_registry.check_worker(first), snowflake_registry.check_worker(last);
    IF last < first THEN
        RAISE EXCEPTION 'last worker must not be less than the first' USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;
COMMENT ON FUNCTION snowflake_registry.check_workers(bigint, bigint) IS
    'raise an error if these cannot be the first and the last of some workers';

CREATE OR REPLACE FUNCTION snowflake_registry.set_rule(first bigint, last bigint, new_rule text, new_comment text)
    RETURNS void
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT snowflake_registry.check_workers(first, last);
    SELECT snowflake_registry.check_room(first, last);
    INSERT INTO snowflake_registry.lease AS l (worker_id, rule, comment)
        SELECT n, new_rule, new_comment FROM generate_series(first, last) n
        ON CONFLICT (worker_id) DO UPDATE SET rule = excluded.rule,
            comment = CASE WHEN l.rule <> excluded.rule THEN excluded.comment
                ELSE coalesce(excluded.comment, l.comment) END
        -- mutant: forbidden-in-range
        WHERE first = last OR l.rule <> 'forbidden' OR excluded.rule = 'forbidden'
$$;
COMMENT ON FUNCTION snowflake_registry.set_rule(bigint, bigint, text, text) IS 'change who may lease some workers';

CREATE OR REPLACE FUNCTION snowflake_registry.reserve_workers(first bigint, last bigint DEFAULT NULL,
    comment text DEFAULT NULL)
    RETURNS void
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS 'SELECT snowflake_registry.set_rule($1, coalesce($2, $1), ''reserved'', $3)';
COMMENT ON FUNCTION snowflake_registry.reserve_workers(bigint, bigint, text) IS
    'keep each of these workers for a server that is configured with its number; a server that has it renews it; of '
    'several workers, forbidden ones stay so';

CREATE OR REPLACE FUNCTION snowflake_registry.forbid_workers(first bigint, last bigint DEFAULT NULL,
    comment text DEFAULT NULL)
    RETURNS void
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS 'SELECT snowflake_registry.set_rule($1, coalesce($2, $1), ''forbidden'', $3)';
COMMENT ON FUNCTION snowflake_registry.forbid_workers(bigint, bigint, text) IS
    'lease these workers to no server; a server that has one issues IDs until its lease ends';

CREATE OR REPLACE FUNCTION snowflake_registry.own_worker() RETURNS bigint
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    -- The library shows it, also to databases without the extension.
    SELECT CASE WHEN own ~ '^[0-9]{1,10}$' THEN own::bigint END
        FROM current_setting('snowflake_pg.own_worker_id', true) own
$$;
COMMENT ON FUNCTION snowflake_registry.own_worker() IS
    'worker that the registry''s own server has without a registry; NULL if it has none, or is not known';

CREATE OR REPLACE FUNCTION snowflake_registry.allow_workers(first bigint, last bigint DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    greatest_worker CONSTANT bigint := coalesce(last, first);
    own CONSTANT bigint := snowflake_registry.own_worker();
BEGIN
    PERFORM snowflake_registry.check_workers(first, greatest_worker);
    IF first < greatest_worker AND EXISTS (SELECT FROM snowflake_registry.lease l
        WHERE l.worker_id = own AND l.worker_id BETWEEN first AND greatest_worker AND l.rule = 'forbidden')
    THEN
        RAISE NOTICE 'worker % stays forbidden', own
            USING DETAIL = 'The registry''s own server has it.',
                HINT = format('If it will not issue IDs, call snowflake_registry.allow_workers(%s).', own);
    END IF;
    UPDATE snowflake_registry.lease l SET rule = 'free', comment = NULL
        WHERE l.worker_id BETWEEN first AND greatest_worker
            -- mutant: own-worker-in-range
            AND (first = greatest_worker OR l.worker_id IS DISTINCT FROM own OR l.rule <> 'forbidden');
END $$;
COMMENT ON FUNCTION snowflake_registry.allow_workers(bigint, bigint) IS
    'undo reserve_workers() and forbid_workers(); of several workers, that of the registry''s own server stays '
    'forbidden';

CREATE OR REPLACE FUNCTION snowflake_registry.release_worker(
    worker_id bigint, issued_until timestamptz DEFAULT clock_timestamp() + interval '10 seconds') RETURNS timestamptz
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    found_lease snowflake_registry.lease;
    lowered bigint;
    known_ids_ms bigint;
    known_ms bigint;
BEGIN
    PERFORM snowflake_registry.check_worker(release_worker.worker_id);
    IF isfinite(release_worker.issued_until) IS NOT TRUE THEN
        RAISE EXCEPTION 'issued_until must be a finite time' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    lowered := snowflake_registry.unix_ms(release_worker.issued_until);
    SELECT * INTO found_lease FROM snowflake_registry.lease l
        WHERE l.worker_id = release_worker.worker_id FOR UPDATE;
    IF (found_lease.is_used OR found_lease.was_used) IS NOT TRUE THEN
        RAISE EXCEPTION 'worker % was never leased', release_worker.worker_id
            USING ERRCODE = 'undefined_object';
    END IF;
    known_ids_ms := greatest(found_lease.issued_until, found_lease.begins_at);
    known_ms := greatest(known_ids_ms, snowflake_registry.unix_ms(found_lease.renewed_at));
    IF lowered < known_ms THEN
        RAISE EXCEPTION 'issued_until is before the last IDs that the server may have issued'
            USING ERRCODE = 'invalid_parameter_value',
            DETAIL = format(CASE WHEN known_ids_ms = 0 THEN 'It has reported no IDs, and was last heard from at %2$s.'
                    ELSE 'It has reported IDs up to %s, and was last heard from at %s.' END,
                snowflake_registry.display(known_ids_ms),
                snowflake_registry.display(snowflake_registry.unix_ms(found_lease.renewed_at))),
            HINT = 'Leave issued_until out if the clock of the server was right.';
    END IF;
    UPDATE snowflake_registry.lease l SET token = NULL, granted_until = least(l.granted_until, lowered)
        WHERE l.worker_id = release_worker.worker_id
        RETURNING l.granted_until INTO STRICT lowered;
    RETURN snowflake_registry.time_of(lowered);
END $$;
COMMENT ON FUNCTION snowflake_registry.release_worker(bigint, timestamptz) IS
    'end the lease of a server that will never issue IDs again; all its IDs must be below issued_until; returns when '
    'the lease ends';

CREATE OR REPLACE FUNCTION snowflake_registry.end_recovery() RETURNS void
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    -- end_recovery() can be called before a server has noticed the restore.
    SELECT snowflake_registry.check_restored(NULL, NULL);
    UPDATE snowflake_registry.registry SET restored_at = 0, restored_revision = 0,
        not_before = least(not_before, snowflake_registry.unix_ms(clock_timestamp()));
    SELECT snowflake_registry.note_origin()
$$;
COMMENT ON FUNCTION snowflake_registry.end_recovery() IS
    'lease workers to other servers again after a restore or failover of the registry, if it lost no transaction';

CREATE OR REPLACE FUNCTION snowflake_registry.set_longest_lease(length interval) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (length BETWEEN interval '5 seconds' AND interval '7 days') IS NOT TRUE THEN
        RAISE EXCEPTION 'longest lease must be between 5 seconds and 7 days' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM snowflake_registry.check_restored(NULL, NULL);
    UPDATE snowflake_registry.registry SET longest_lease_ms = extract(epoch FROM length) * 1000;
    PERFORM snowflake_registry.note_origin();
END $$;
COMMENT ON FUNCTION snowflake_registry.set_longest_lease(interval) IS
    'limit how far ahead of the registry''s clock leases reach, an hour at first; for that long after a restore, no '
    'worker is leased to another server';

CREATE OR REPLACE FUNCTION snowflake_registry.version() RETURNS integer
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS 'SELECT registry_version FROM snowflake_registry.registry';
COMMENT ON FUNCTION snowflake_registry.version() IS 'version of the registry';

-- The worker that the server of a new registry has without it.
DO $$
DECLARE
    -- NULL without the library.
    source text := trim(current_setting('snowflake_pg.worker_id', true));
    own bigint := snowflake_registry.own_worker();
    shown text := current_setting('client_min_messages');
BEGIN
    IF NOT current_setting('snowflake_registry.is_new')::boolean OR coalesce(source = '', true)
        -- The rows of a dump are to come.
        OR NOT EXISTS (SELECT FROM snowflake_registry.registry)
        -- A registry leases it: this one, or one of another fleet, whose numbers say nothing here.
        OR current_setting('snowflake_pg.own_worker_id', true) = 'registry'
    THEN
        RETURN;
    END IF;
    IF own IS NOT NULL THEN
        -- mutant: own-worker-forbidden
        PERFORM snowflake_registry.forbid_workers(own, comment => 'the worker_id of the registry''s server');
    END IF;
    -- Scripts of extensions show warnings alone.
    PERFORM set_config('client_min_messages', 'notice', true);
    RAISE NOTICE '%', CASE WHEN own IS NOT NULL THEN format('registry leases worker %s to no server', own)
            ELSE 'registry does not know the worker of this server' END
        USING DETAIL = format('This server has it by snowflake_pg.worker_id = ''%s''%s.', source,
                CASE WHEN coalesce(current_setting('snowflake_pg.datacenter_id', true), '0') <> '0'
                    THEN format(' and snowflake_pg.datacenter_id = ''%s''',
                        current_setting('snowflake_pg.datacenter_id')) ELSE '' END),
            HINT = 'Call snowflake_registry.forbid_workers() for all servers that do not use the registry.';
    PERFORM set_config('client_min_messages', shown, true);
END $$;
