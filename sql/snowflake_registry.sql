-- The registry of worker IDs for snowflake_pg: plain SQL, for a database of PostgreSQL 15 or newer, which needs no
-- extension. To be installed by psql -f; run again, it brings an older version up to this one, and loses nothing.
--
-- The registry grants a worker to a server for IDs with timestamps below `granted_until`. Whoever gets the worker next
-- begins there, or later. So two servers that both believe to have a worker never issue the same ID, whatever clocks
-- show. Clocks only decide when a worker is free. See docs/registry.md.

\set ON_ERROR_STOP on
\set was_quiet :QUIET
\set QUIET on
BEGIN;

-- Nothing of another role's is used, whatever this database has.
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL client_min_messages = warning;

DO $$
DECLARE
    other text;
BEGIN
    SELECT n.nspowner::regrole::text INTO other FROM pg_namespace n
        WHERE n.nspname = 'snowflake_registry' AND n.nspowner <> quote_ident(current_user)::regrole
    UNION SELECT c.relowner::regrole::text FROM pg_class c
        WHERE c.relnamespace = to_regnamespace('snowflake_registry') AND c.relowner <> quote_ident(current_user)::regrole
    UNION SELECT p.proowner::regrole::text FROM pg_proc p
        WHERE p.pronamespace = to_regnamespace('snowflake_registry') AND p.proowner <> quote_ident(current_user)::regrole
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'schema snowflake_registry has objects of another role' USING ERRCODE = 'insufficient_privilege',
            DETAIL = format('Their owner is %s.', other),
            HINT = 'Run this script as the role that installed the registry, or in a database of its own.';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'snowflake_registry_server') THEN
        CREATE ROLE snowflake_registry_server NOLOGIN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'snowflake_registry_admin') THEN
        CREATE ROLE snowflake_registry_admin NOLOGIN;
    END IF;
    PERFORM set_config('snowflake_registry.is_new', (to_regclass('snowflake_registry.lease') IS NULL)::text, true);
END $$;

CREATE SCHEMA IF NOT EXISTS snowflake_registry;
COMMENT ON SCHEMA snowflake_registry IS 'worker IDs of snowflake_pg, leased to servers';

-- Tables: only the functions below write them ---------------------------------------------------------------------------

CREATE TABLE IF NOT EXISTS snowflake_registry.registry (
    is_only_row boolean PRIMARY KEY DEFAULT true CHECK (is_only_row),
    version integer NOT NULL,
    system_identifier bigint NOT NULL,
    timeline bigint NOT NULL,
    storage text NOT NULL,
    restored_at bigint NOT NULL DEFAULT 0,
    restored_revision bigint NOT NULL DEFAULT 0,
    reached_revision bigint NOT NULL DEFAULT 0,
    not_before bigint NOT NULL DEFAULT 0,
    longest_lease bigint NOT NULL DEFAULT 3600000,
    secret uuid NOT NULL DEFAULT gen_random_uuid()
);
COMMENT ON TABLE snowflake_registry.registry IS 'one row: the registry itself';
COMMENT ON COLUMN snowflake_registry.registry.version IS 'version of the script that was run last';
COMMENT ON COLUMN snowflake_registry.registry.timeline IS
    'of this cluster, as system_identifier; another one means that the registry was restored or has failed over';
COMMENT ON COLUMN snowflake_registry.registry.storage IS
    'which table and which file the leases are in, and which transaction wrote this row; others mean that they were restored from a dump, or rewritten';
COMMENT ON COLUMN snowflake_registry.registry.restored_at IS
    'when that was noticed last, in Unix milliseconds; 0 for never, or after end_recovery()';
COMMENT ON COLUMN snowflake_registry.registry.restored_revision IS 'leases with a lower revision were not renewed since';
COMMENT ON COLUMN snowflake_registry.registry.reached_revision IS
    'as far as it is known from servers, though leases of that revision may be lost';
COMMENT ON COLUMN snowflake_registry.registry.longest_lease IS
    'how far a grant reaches ahead of the registry''s clock at most, in milliseconds; so long not_before is after a restore';
COMMENT ON COLUMN snowflake_registry.registry.secret IS 'for receipts, which no other can make';
COMMENT ON COLUMN snowflake_registry.registry.not_before IS
    'no worker is given to another server before this time, in Unix milliseconds: leases may have been lost';

CREATE TABLE IF NOT EXISTS snowflake_registry.lease (
    worker_id bigint PRIMARY KEY CHECK (worker_id >= 0),
    token uuid UNIQUE,
    begins_at bigint NOT NULL DEFAULT 0,
    granted_until bigint NOT NULL DEFAULT 0,
    issued_until bigint NOT NULL DEFAULT 0,
    revision bigint NOT NULL DEFAULT 0,
    renewed timestamptz,
    since timestamptz,
    is_used boolean NOT NULL DEFAULT false,
    was_used boolean NOT NULL DEFAULT false,
    rule text NOT NULL DEFAULT 'free' CHECK (rule IN ('free', 'reserved', 'forbidden')),
    comment text,
    server text,
    system_identifier text,
    host text,
    port integer,
    address inet,
    role text,
    layout text,
    clock_offset_ms bigint,
    conflict text
);
COMMENT ON TABLE snowflake_registry.lease IS 'a row for each worker that was ever leased, reserved or forbidden';
COMMENT ON COLUMN snowflake_registry.lease.worker_id IS
    'in a layout with data centers: the number of the data center and then of the worker, as one number';
COMMENT ON COLUMN snowflake_registry.lease.token IS 'secret of the server that has the worker; a new one with each renewal';
COMMENT ON COLUMN snowflake_registry.lease.begins_at IS
    'where the IDs of this server began, in Unix milliseconds';
COMMENT ON COLUMN snowflake_registry.lease.granted_until IS
    'timestamps of its IDs are below this time, in Unix milliseconds; those of the next server are not';
COMMENT ON COLUMN snowflake_registry.lease.issued_until IS
    'timestamps of its IDs were below this time when it reported last, in Unix milliseconds';
COMMENT ON COLUMN snowflake_registry.lease.is_used IS 'whether this server can have issued IDs';
COMMENT ON COLUMN snowflake_registry.lease.was_used IS 'whether one that had the worker before can have';
COMMENT ON COLUMN snowflake_registry.lease.conflict IS
    'what this server is to be told: another one has had the same worker for the same time';
COMMENT ON COLUMN snowflake_registry.lease.rule IS
    'free: for any server; reserved: only for a server that is configured with this number; forbidden: for none';

-- Numbers changes. What it shows can be ahead after a crash, or after the registry was put back.
CREATE SEQUENCE IF NOT EXISTS snowflake_registry.revision;

DO $$
DECLARE
    installed integer;
BEGIN
    SELECT version INTO installed FROM snowflake_registry.registry;
    IF installed > 1 THEN
        RAISE EXCEPTION 'registry has version %, which is newer than this script', installed
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
END $$;

-- Before rows of a dump take their places. TRUNCATE gives the table another file.
CREATE OR REPLACE FUNCTION snowflake_registry.note_deleted() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE snowflake_registry.registry SET storage = '';
    RETURN NULL;
END $$;
COMMENT ON FUNCTION snowflake_registry.note_deleted() IS 'have it noticed that leases were deleted';
CREATE OR REPLACE TRIGGER note_deleted AFTER DELETE ON snowflake_registry.lease
    FOR EACH STATEMENT EXECUTE FUNCTION snowflake_registry.note_deleted();

-- Helpers -----------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION snowflake_registry.unix_ms(at timestamptz) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN floor(extract(epoch FROM at) * 1000)::bigint;
COMMENT ON FUNCTION snowflake_registry.unix_ms(timestamptz) IS 'a time in Unix milliseconds';

CREATE OR REPLACE FUNCTION snowflake_registry.time_of(unix_ms bigint) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN 'epoch'::timestamptz + unix_ms * interval '1 ms';
COMMENT ON FUNCTION snowflake_registry.time_of(bigint) IS 'the time of Unix milliseconds';

CREATE OR REPLACE FUNCTION snowflake_registry.display(unix_ms bigint) RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL SAFE
    RETURN to_char(snowflake_registry.time_of(unix_ms) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"');
COMMENT ON FUNCTION snowflake_registry.display(bigint) IS 'the time of Unix milliseconds, as a text for messages';

CREATE OR REPLACE FUNCTION snowflake_registry.holder(lease snowflake_registry.lease) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN format('%s on host "%s"%s', coalesce('server "' || (lease).server || '"', 'a server with system identifier ' || (lease).system_identifier),
        (lease).host, coalesce(', address ' || host((lease).address), ''));
COMMENT ON FUNCTION snowflake_registry.holder(snowflake_registry.lease) IS 'the server of a lease, for messages';

CREATE OR REPLACE FUNCTION snowflake_registry.comment_of(lease snowflake_registry.lease) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN coalesce(format('Its comment is "%s".', nullif((lease).comment, '')), 'It has no comment.');
COMMENT ON FUNCTION snowflake_registry.comment_of(snowflake_registry.lease) IS 'what people have said of a worker, for messages';

CREATE OR REPLACE FUNCTION snowflake_registry.own_timeline() RETURNS bigint
    LANGUAGE sql STABLE
    RETURN ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint;
COMMENT ON FUNCTION snowflake_registry.own_timeline() IS
    'timeline of this cluster; the control file, which pg_control_checkpoint() reads, is behind after a promotion';

CREATE OR REPLACE FUNCTION snowflake_registry.own_storage(written xid) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT concat_ws(' ', (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()),
        'snowflake_registry.lease'::regclass::oid, pg_relation_filenode('snowflake_registry.lease'), written)
$$;
COMMENT ON FUNCTION snowflake_registry.own_storage(xid) IS
    'the database, the OID of the table of leases, its file, and the xmin of the row of the registry: neither a dump nor a copy of the database brings them back';

CREATE OR REPLACE FUNCTION snowflake_registry.is_original() RETURNS boolean
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT (r.system_identifier, r.timeline, r.storage)
        = ((pg_control_system()).system_identifier, snowflake_registry.own_timeline(), snowflake_registry.own_storage(r.xmin))
    FROM snowflake_registry.registry r
$$;
COMMENT ON FUNCTION snowflake_registry.is_original() IS 'whether the registry is where its row was written';

CREATE OR REPLACE FUNCTION snowflake_registry.note_origin() RETURNS void
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    UPDATE snowflake_registry.registry
        SET system_identifier = (pg_control_system()).system_identifier, timeline = snowflake_registry.own_timeline();
    -- Only now it has its xmin.
    UPDATE snowflake_registry.registry r SET storage = snowflake_registry.own_storage(r.xmin);
$$;
COMMENT ON FUNCTION snowflake_registry.note_origin() IS
    'note where the registry is; to be called after each change of its row, before which check_restored() was called';

CREATE OR REPLACE FUNCTION snowflake_registry.last_revision() RETURNS bigint
    LANGUAGE sql VOLATILE
    RETURN greatest((SELECT max(l.revision) FROM snowflake_registry.lease l),
        (SELECT r.reached_revision FROM snowflake_registry.registry r));
COMMENT ON FUNCTION snowflake_registry.last_revision() IS
    'the number of the last change of this registry; a server that has seen a higher one knows a later state of it';

CREATE OR REPLACE FUNCTION snowflake_registry.check_restored(seen_revision bigint, kept_revision bigint) RETURNS snowflake_registry.registry
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    here snowflake_registry.registry;
    noted snowflake_registry.registry;
BEGIN
    -- What was committed must not be lost in a crash, whatever the settings of this database or role are.
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    SELECT * INTO STRICT here FROM snowflake_registry.registry;
    IF snowflake_registry.is_original() AND coalesce(seen_revision, 0) <= greatest(kept_revision, here.reached_revision) THEN
        RETURN here;
    END IF;
    -- Who waits for a lock could be held up by a role that was stolen.
    SELECT * INTO noted FROM snowflake_registry.registry FOR UPDATE SKIP LOCKED;
    IF snowflake_registry.is_original() AND coalesce(seen_revision, 0) <= greatest(kept_revision, noted.reached_revision) THEN
        RETURN noted;
    END IF;
    here.restored_at := snowflake_registry.unix_ms(clock_timestamp());
    here.restored_revision := greatest(snowflake_registry.last_revision(), seen_revision) + 1;
    -- Then leases that were lost have ended. A minute more, since the clock may be another machine's.
    here.not_before := greatest(here.not_before, here.restored_at + here.longest_lease + 60000);
    IF noted.version IS NULL THEN
        -- Another transaction notes it just now.
        RETURN here;
    END IF;
    -- By who has the row locked, so that it never goes back.
    here.restored_revision := greatest(here.restored_revision, nextval('snowflake_registry.revision'));
    -- Far enough that it does not go back, whoever takes numbers meanwhile.
    PERFORM setval('snowflake_registry.revision', here.restored_revision + 1000);
    UPDATE snowflake_registry.registry SET restored_at = here.restored_at, restored_revision = here.restored_revision,
        not_before = here.not_before, reached_revision = here.restored_revision;
    PERFORM snowflake_registry.note_origin();
    RAISE LOG 'snowflake_registry was restored or has failed over'
        USING DETAIL = format('No worker is given to another server before %s.', snowflake_registry.display(here.not_before)),
            HINT = 'If no transaction was lost, call snowflake_registry.end_recovery().';
    RETURN here;
END $$;
COMMENT ON FUNCTION snowflake_registry.check_restored(bigint, bigint) IS
    'note a restore or a failover of the registry, after which leases may be missing: it is elsewhere, or a server has a receipt for a later state of a row than was kept';

CREATE OR REPLACE FUNCTION snowflake_registry.receipt_for(
    worker bigint, token uuid, granted bigint, revision bigint) RETURNS text
    -- Without NULL, which concat_ws() leaves out: then another lease could have the same proof.
    LANGUAGE sql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT encode(sha256(convert_to(secret || encode(sha256(convert_to(concat_ws(' ', secret, worker, token, granted,
        revision), 'UTF8')), 'hex'), 'UTF8')), 'hex') FROM snowflake_registry.registry
$$;
COMMENT ON FUNCTION snowflake_registry.receipt_for(bigint, uuid, bigint, bigint) IS
    'proof that this registry has granted a lease, even if it has lost it in a restore';

DO $$
BEGIN
    IF current_setting('snowflake_registry.is_new')::boolean THEN
        INSERT INTO snowflake_registry.registry (version, system_identifier, timeline, storage) VALUES (1, 0, 0, '');
    ELSE
        PERFORM snowflake_registry.check_restored(NULL, NULL);
        UPDATE snowflake_registry.registry SET version = 1 WHERE version <> 1;
    END IF;
    IF FOUND THEN
        PERFORM snowflake_registry.note_origin();
    END IF;
END $$;

-- For servers ---------------------------------------------------------------------------------------------------------------
--
-- Each change takes a token that the server had, and leaves a new one that the server has chosen. So a copy of a server
-- has an old token as soon as its original has renewed its lease. A call whose answer was lost is repeated with the
-- same new token. The server has that, too, when it asks for a renewal.
--
-- A row is locked only once it is known that it is to be changed: whoever has a server's role could hold others up.

CREATE OR REPLACE FUNCTION snowflake_registry.server_hello(
    held_token uuid, held_until bigint, held_receipt text, worker bigint, seen_revision bigint,
    OUT version integer, OUT clock bigint)
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '10s' AS $$
    SELECT version, snowflake_registry.unix_ms(clock_timestamp()) FROM snowflake_registry.check_restored(
        -- Whoever has a receipt of this registry knows a state of it. A row never goes back.
        CASE WHEN held_receipt = snowflake_registry.receipt_for(worker, held_token, held_until, seen_revision)
            THEN seen_revision END,
        (SELECT l.revision FROM snowflake_registry.lease l WHERE l.worker_id = worker))
$$;
COMMENT ON FUNCTION snowflake_registry.server_hello(uuid, bigint, text, bigint, bigint) IS
    'to be called first: version of the registry, and what its clock shows, in Unix milliseconds; notes a restore, also if the next call fails';

CREATE OR REPLACE FUNCTION snowflake_registry.read_about(
    about jsonb, OUT lease_ms bigint, OUT clock bigint, OUT clock_offset bigint, OUT issued bigint, OUT begins bigint, OUT layout text,
    OUT server text, OUT system text, OUT host text, OUT port integer)
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT a.lease_ms, a.clock, a.clock_offset, a.issued, a.begins, left(a.layout, 200), left(a.server, 100), left(a.system, 20),
            left(a.host, 255), a.port
        INTO lease_ms, clock, clock_offset, issued, begins, layout, server, system, host, port
        FROM jsonb_to_record(about) AS a(lease_ms bigint, clock bigint, clock_offset bigint, issued bigint, begins bigint, layout text,
            server text, system text, host text, port integer);
    issued := coalesce(issued, 0);
    clock_offset := coalesce(clock_offset, 0);
    IF clock IS NULL OR lease_ms IS NULL OR lease_ms NOT BETWEEN 1000 AND 86400000
        -- Up to the year 9999.
        OR least(clock, issued) < 0 OR greatest(clock, issued, abs(clock_offset)) > 253402300799999
    THEN
        RAISE EXCEPTION 'invalid request' USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;
COMMENT ON FUNCTION snowflake_registry.read_about(jsonb) IS
    'what a server says of itself; clock is the latest of its clock, its IDs and its durable mark';

CREATE OR REPLACE FUNCTION snowflake_registry.grant_for(lease_ms bigint, server_clock bigint, now_ms bigint, longest bigint)
    RETURNS bigint
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF server_clock >= now_ms + longest THEN
        RAISE EXCEPTION 'clock or durable mark of the server is too far ahead of the registry''s clock'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                DETAIL = format('It is at %s, and the registry''s at %s. A lease reaches at most %s ahead.',
                    snowflake_registry.display(server_clock), snowflake_registry.display(now_ms), longest * interval '1 ms'),
                HINT = 'Correct the clocks, or call snowflake_registry.set_longest_lease() in the registry.';
    END IF;
    RETURN least(greatest(now_ms, server_clock) + lease_ms, now_ms + longest);
END $$;
COMMENT ON FUNCTION snowflake_registry.grant_for(bigint, bigint, bigint, bigint) IS 'the end of a lease that is granted now';

CREATE OR REPLACE FUNCTION snowflake_registry.other_layout(of_layout text, now_ms bigint) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('Worker %s, %s, has layout %s.', l.worker_id, snowflake_registry.holder(l), l.layout)
        FROM snowflake_registry.lease l WHERE l.token IS NOT NULL AND l.granted_until > now_ms AND l.layout <> of_layout LIMIT 1
$$;
COMMENT ON FUNCTION snowflake_registry.other_layout(text, bigint) IS
    'a server with a lease and another layout, whose IDs can be equal';

CREATE OR REPLACE FUNCTION snowflake_registry.margin(lease_ms bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    RETURN least(60000, lease_ms / 10);
COMMENT ON FUNCTION snowflake_registry.margin(bigint) IS
    'how long before its end a server may claim a lease of its own anew, in milliseconds';

CREATE OR REPLACE FUNCTION snowflake_registry.claim_own(
    presented uuid[], configured bigint, least_worker bigint, greatest_worker bigint, avoided bigint, lease_ms bigint,
    not_before bigint, now_ms bigint, OUT worker bigint, OUT other text)
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_lease snowflake_registry.lease;
BEGIN
    SELECT * INTO found_lease FROM snowflake_registry.lease l WHERE l.token = ANY (presented)
        AND l.worker_id BETWEEN least_worker AND greatest_worker
        AND (l.worker_id = configured OR configured IS NULL AND l.rule = 'free') FOR UPDATE;
    -- What it has released ends within its reservation. Not earlier than is_holder() reckons with.
    IF found_lease.rule <> 'forbidden' AND not_before <= now_ms
        AND (found_lease.is_used OR found_lease.was_used OR found_lease.worker_id IS DISTINCT FROM avoided)
        AND found_lease.granted_until <= now_ms + snowflake_registry.margin(lease_ms)
    THEN
        worker := found_lease.worker_id;
    ELSIF found_lease.worker_id IS NOT NULL THEN
        other := snowflake_registry.holder(found_lease);
    END IF;
END $$;
COMMENT ON FUNCTION snowflake_registry.claim_own(uuid[], bigint, bigint, bigint, bigint, bigint, bigint, bigint) IS
    'the worker that a server had, locked, if it is free; or who has it';

CREATE OR REPLACE FUNCTION snowflake_registry.insert_worker(worker bigint) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- Far more than any fleet has: a role that was stolen must not fill the disk.
    most CONSTANT integer := 100000;
BEGIN
    IF (SELECT count(*) FROM snowflake_registry.lease) >= most
        AND NOT EXISTS (SELECT FROM snowflake_registry.lease l WHERE l.worker_id = worker)
    THEN
        RAISE EXCEPTION 'registry has no room for another worker' USING ERRCODE = 'program_limit_exceeded',
            DETAIL = format('It knows %s workers.', most),
            HINT = 'The view snowflake_registry.workers shows which role has leased them.';
    END IF;
    IF NOT pg_try_advisory_xact_lock(
        -- Nobody else can take these locks.
        (SELECT hashtextextended(concat_ws(' ', r.secret, worker), 0) FROM snowflake_registry.registry r))
    THEN
        RETURN false;
    END IF;
    INSERT INTO snowflake_registry.lease (worker_id) VALUES (worker) ON CONFLICT DO NOTHING;
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION snowflake_registry.insert_worker(bigint) IS
    'a row for a worker that has none yet; false if it has one, or another transaction inserts it just now: nobody waits for that';

CREATE OR REPLACE FUNCTION snowflake_registry.claim_configured(
    configured bigint, not_before bigint, now_ms bigint, of_system text, of_host text, of_port integer)
    RETURNS bigint
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_lease snowflake_registry.lease;
BEGIN
    IF snowflake_registry.insert_worker(configured) THEN
        RETURN CASE WHEN not_before <= now_ms THEN configured END;
    END IF;
    SELECT * INTO found_lease FROM snowflake_registry.lease l
        WHERE l.worker_id = configured;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'worker % is being leased to another server', configured
            USING ERRCODE = 'lock_not_available';
    END IF;
    IF found_lease.rule <> 'forbidden' AND greatest(found_lease.granted_until, not_before) <= now_ms THEN
        -- Another server may have got it just now.
        SELECT * INTO STRICT found_lease FROM snowflake_registry.lease l
            WHERE l.worker_id = configured FOR UPDATE;
    END IF;
    IF found_lease.rule = 'forbidden' THEN
        RAISE EXCEPTION 'worker % is forbidden', configured
            USING ERRCODE = 'object_not_in_prerequisite_state',
                DETAIL = snowflake_registry.comment_of(found_lease),
                HINT = format('Configure another worker, or call snowflake_registry.allow_worker(%s) in the registry.',
                    configured);
    ELSIF found_lease.granted_until <= now_ms THEN
        RETURN CASE WHEN not_before <= now_ms THEN configured END;
    ELSIF (found_lease.system_identifier, found_lease.host, found_lease.port) = (of_system, of_host, of_port) THEN
        RAISE EXCEPTION 'worker % is still leased to this server, or to a copy of it', configured
            USING ERRCODE = 'object_not_in_prerequisite_state',
                DETAIL = format('The lease ends at %s. The machine was booted since, the state directory is another one, or the '
                    'registry''s answer was lost.',
                    snowflake_registry.display(found_lease.granted_until)),
                HINT = format('The server goes on then. If there is no copy that issues IDs, call '
                    'snowflake_registry.release_worker(%s) in the registry to end the lease now.', configured);
    END IF;
    RAISE EXCEPTION 'worker % is leased to another server', configured
        USING ERRCODE = 'object_not_in_prerequisite_state',
            DETAIL = format('It is %s. The lease ends at %s.', snowflake_registry.holder(found_lease),
                snowflake_registry.display(found_lease.granted_until)),
            HINT = format('Stop that server, which releases the worker, or configure another worker. If it will never issue '
                'IDs again, call snowflake_registry.release_worker(%s) in the registry.', configured);
END $$;
COMMENT ON FUNCTION snowflake_registry.claim_configured(bigint, bigint, bigint, text, text, integer) IS
    'the worker that a server is configured with, locked, if it is free';

CREATE OR REPLACE FUNCTION snowflake_registry.claim_any(
    least_worker bigint, greatest_worker bigint, avoided bigint, now_ms bigint) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known bigint;
    worker bigint;
    counted record;
    next_lease snowflake_registry.lease;
BEGIN
    -- One that nobody had before.
    SELECT count(*) INTO known FROM snowflake_registry.lease l
        WHERE l.worker_id BETWEEN least_worker AND greatest_worker;
    FOR worker IN SELECT n FROM generate_series(least_worker, least(greatest_worker, least_worker + known + 1000)) n
        WHERE NOT EXISTS (SELECT FROM snowflake_registry.lease l WHERE l.worker_id = n)
            AND n IS DISTINCT FROM avoided
        ORDER BY n
    LOOP
        IF snowflake_registry.insert_worker(worker) THEN
            RETURN worker;
        END IF;
    END LOOP;
    -- Else the one whose lease ended first.
    SELECT l.worker_id INTO worker FROM snowflake_registry.lease l
        WHERE l.worker_id BETWEEN least_worker AND greatest_worker AND l.rule = 'free'
            AND l.granted_until <= now_ms AND (l.is_used OR l.was_used OR l.worker_id IS DISTINCT FROM avoided)
        ORDER BY l.granted_until, l.worker_id LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        RETURN worker;
    END IF;
    SELECT count(*) FILTER (WHERE l.granted_until > now_ms) AS leased,
            count(*) FILTER (WHERE l.granted_until <= now_ms AND l.rule <> 'free') AS kept INTO counted
        FROM snowflake_registry.lease l WHERE l.worker_id BETWEEN least_worker AND greatest_worker;
    SELECT l.* INTO next_lease FROM snowflake_registry.lease l
        WHERE l.worker_id BETWEEN least_worker AND greatest_worker AND l.rule = 'free'
        ORDER BY l.granted_until LIMIT 1;
    RAISE EXCEPTION 'no worker is free' USING ERRCODE = 'configuration_limit_exceeded',
        DETAIL = format('Of the workers %s to %s, %s are leased, and %s are reserved or forbidden.%s', least_worker,
            greatest_worker, counted.leased, counted.kept, CASE WHEN next_lease.worker_id IS NOT NULL THEN
                format(' The next lease to end is that of worker %s, %s, at %s unless it is renewed.', next_lease.worker_id,
                    snowflake_registry.holder(next_lease), snowflake_registry.display(next_lease.granted_until)) END),
        HINT = 'See the views workers and status in the schema snowflake_registry of the registry. Choose a layout with room for more workers'
            || CASE WHEN counted.kept > 0 THEN ', or call snowflake_registry.allow_worker() in the registry.' ELSE '.' END;
END $$;
COMMENT ON FUNCTION snowflake_registry.claim_any(bigint, bigint, bigint, bigint) IS
    'a free worker, locked; the avoided one only if it was leased before, so that its IDs begin above those';

CREATE OR REPLACE FUNCTION snowflake_registry.server_claim(
    presented uuid[], new_token uuid, configured bigint, least_worker bigint, greatest_worker bigint, avoided bigint, about jsonb,
    OUT worker bigint, OUT begins bigint, OUT is_first boolean, OUT granted bigint, OUT receipt text, OUT at_revision bigint,
    OUT other text, OUT layout_note text)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '10s' AS $$
DECLARE
    here snowflake_registry.registry := snowflake_registry.check_restored(NULL, NULL);
    now_ms bigint := snowflake_registry.unix_ms(clock_timestamp());
    this record := snowflake_registry.read_about(about);
    found_lease snowflake_registry.lease;
BEGIN
    IF new_token IS NULL OR least_worker IS NULL OR greatest_worker IS NULL
        OR greatest(configured, least_worker, greatest_worker) > 2147483647 OR least(configured, least_worker, greatest_worker) < 0
    THEN
        RAISE EXCEPTION 'invalid request' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    layout_note := snowflake_registry.other_layout(this.layout, now_ms);

    -- A claim whose answer was lost.
    SELECT * INTO found_lease FROM snowflake_registry.lease l WHERE l.token = new_token
        AND l.worker_id BETWEEN least_worker AND greatest_worker;
    IF FOUND THEN
        worker := found_lease.worker_id;
        begins := found_lease.begins_at;
        is_first := NOT found_lease.was_used;
        granted := found_lease.granted_until;
        at_revision := found_lease.revision;
        receipt := snowflake_registry.receipt_for(worker, new_token, granted, at_revision);
        RETURN;
    END IF;

    SELECT c.worker, c.other INTO worker, other FROM snowflake_registry.claim_own(
        presented, configured, least_worker, greatest_worker, avoided, least(this.lease_ms, here.longest_lease), here.not_before,
        now_ms) c;
    IF worker IS NULL AND configured IS NOT NULL THEN
        worker := snowflake_registry.claim_configured(
            configured, here.not_before, now_ms, this.system, this.host, this.port);
    ELSIF worker IS NULL AND here.not_before <= now_ms THEN
        worker := snowflake_registry.claim_any(least_worker, greatest_worker, avoided, now_ms);
    END IF;
    IF worker IS NULL THEN
        RAISE EXCEPTION 'registry was restored or has failed over' USING ERRCODE = 'object_not_in_prerequisite_state',
            DETAIL = format('Leases may have been lost. It gives no worker to another server before %s.',
                snowflake_registry.display(here.not_before)),
            HINT = 'If it has lost no transaction, call snowflake_registry.end_recovery() in the registry.';
    END IF;

    -- The row is this transaction's.
    SELECT greatest(l.granted_until, here.not_before), NOT (l.is_used OR l.was_used) INTO STRICT begins, is_first
        FROM snowflake_registry.lease l WHERE l.worker_id = worker;
    granted := greatest(begins, snowflake_registry.grant_for(this.lease_ms, this.clock, now_ms, here.longest_lease));
    at_revision := nextval('snowflake_registry.revision');
    UPDATE snowflake_registry.lease l SET token = new_token, begins_at = begins, granted_until = granted, issued_until = 0,
            revision = at_revision, renewed = clock_timestamp(), since = clock_timestamp(), was_used = l.is_used OR l.was_used,
            is_used = true, conflict = NULL,
            server = this.server, system_identifier = this.system, host = this.host, port = this.port,
            address = inet_client_addr(), role = session_user, layout = this.layout, clock_offset_ms = this.clock_offset
        WHERE l.worker_id = worker;
    receipt := snowflake_registry.receipt_for(worker, new_token, granted, at_revision);
END $$;
COMMENT ON FUNCTION snowflake_registry.server_claim(uuid[], uuid, bigint, bigint, bigint, bigint, jsonb) IS
    'lease a free worker: the one that the server had, the one that it is configured with, or any; its IDs begin at begins, above all that another server can have issued';

CREATE OR REPLACE FUNCTION snowflake_registry.is_holder(
    row_of snowflake_registry.lease, here snowflake_registry.registry, presented uuid[], held_until bigint, held_receipt text,
    worker bigint, seen_revision bigint, this record) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- Written since the last restore, if there was one.
    is_current boolean := coalesce(row_of.revision >= here.restored_revision AND row_of.revision > 0, false);
    has_receipt boolean := held_receipt = snowflake_registry.receipt_for(worker, presented[1], held_until, seen_revision);
BEGIN
    -- Other holders and what came after a lease may have been lost. Only the last holder of a worker has a grant beyond
    -- the time of the restore, also by its own clock: the registry's can be another one since.
    -- A clock that was ahead at the restore has been set right.
    IF here.restored_at > 0 AND (held_until > least(here.restored_at, snowflake_registry.unix_ms(clock_timestamp()))
        + snowflake_registry.margin(least(this.lease_ms, here.longest_lease)) + greatest(0, this.clock_offset)) IS NOT TRUE
        -- Or the registry has answered the server since. By the token alone, the row could be of a request from before,
        -- which arrived late.
        AND (is_current AND has_receipt AND seen_revision >= here.restored_revision) IS NOT TRUE
    THEN
        RETURN false;
    END IF;
    -- The first condition: a claim that arrives late gives its token to the row again, after other holders.
    IF is_current THEN
        RETURN held_until >= row_of.begins_at AND row_of.token = ANY (presented);
    END IF;
    -- The row has its token, and grants that much. After a planned stop whose release was lost, there is no receipt.
    IF row_of.token = ANY (presented) AND held_until BETWEEN row_of.begins_at AND row_of.granted_until THEN
        RETURN true;
    END IF;
    -- By its receipt, the server has that grant. The row has its token, or says less. It does not say that another server
    -- has the worker: before the restore was noticed, that one can have got it.
    RETURN has_receipt AND (
        coalesce(row_of.revision, 0) <= seen_revision
            AND (row_of.granted_until > this.begins
                AND (row_of.system_identifier, row_of.host, row_of.port) IS DISTINCT FROM (this.system, this.host, this.port)
            ) IS NOT TRUE
        OR held_until >= row_of.begins_at AND row_of.token = ANY (presented));
END $$;
COMMENT ON FUNCTION snowflake_registry.is_holder(snowflake_registry.lease, snowflake_registry.registry, uuid[], bigint, text, bigint,
    bigint, record) IS 'whether a server has the worker of this row';

CREATE OR REPLACE FUNCTION snowflake_registry.note_conflict(
    row_of snowflake_registry.lease, this record, held_until bigint) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    asking snowflake_registry.lease;
    seen text;
BEGIN
    asking.server := this.server;
    asking.system_identifier := this.system;
    asking.host := this.host;
    asking.address := inet_client_addr();
    seen := format('Worker %s was leased to %s for IDs up to %s, and to %s since %s.', row_of.worker_id,
        snowflake_registry.holder(asking), snowflake_registry.display(held_until),
        snowflake_registry.holder(row_of), snowflake_registry.display(snowflake_registry.unix_ms(row_of.since)));
    RAISE LOG 'a worker was leased to two servers for the same time' USING DETAIL = seen,
        HINT = 'Look for IDs that both have issued. Unless the lease was ended by hand, the registry has lost a transaction.';
    -- Unless the other one renews just now: nobody waits for a lock.
    UPDATE snowflake_registry.lease l SET conflict = seen
        WHERE l.worker_id IN (SELECT o.worker_id FROM snowflake_registry.lease o
            WHERE o.worker_id = row_of.worker_id AND o.token = row_of.token
            FOR UPDATE SKIP LOCKED);
END $$;
COMMENT ON FUNCTION snowflake_registry.note_conflict(snowflake_registry.lease, record, bigint) IS
    'log that two servers have had a worker for the same time, and have the other one told when it renews';

CREATE OR REPLACE FUNCTION snowflake_registry.server_renew(
    presented uuid[], new_token uuid, held_until bigint, held_receipt text, worker bigint,
    seen_revision bigint, about jsonb,
    OUT granted bigint, OUT receipt text, OUT at_revision bigint, OUT refusal text, OUT hint text, OUT is_final boolean,
    OUT must_stop boolean, OUT layout_note text, OUT conflict_note text)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '10s' AS $$
DECLARE
    here snowflake_registry.registry := snowflake_registry.check_restored(NULL, NULL);
    now_ms bigint;
    this record := snowflake_registry.read_about(about);
    found_lease snowflake_registry.lease;
    is_proven boolean;
BEGIN
    IF new_token IS NULL THEN
        RAISE EXCEPTION 'invalid request' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR pass IN 1..2 LOOP
        IF pass = 1 THEN
            SELECT * INTO found_lease FROM snowflake_registry.lease l
                WHERE l.worker_id = worker;
        ELSE
            SELECT * INTO found_lease FROM snowflake_registry.lease l
                WHERE l.worker_id = worker FOR UPDATE;
        END IF;
        IF snowflake_registry.is_holder(found_lease, here, presented, held_until, held_receipt, worker,
            seen_revision, this) IS NOT TRUE
        THEN
            is_final := false;
            must_stop := false;
            IF found_lease.worker_id IS NULL OR found_lease.token IS NULL AND NOT (found_lease.is_used OR found_lease.was_used) THEN
                refusal := 'The registry does not know the lease.';
            ELSIF found_lease.token IS NULL THEN
                refusal := 'It was released by hand.';
                is_final := true;
            ELSIF found_lease.token = ANY (presented) THEN
                refusal := 'It had ended when the registry was restored or failed over, or its release was not answered since.';
                hint := 'Restart this server, so that it leases a worker anew.';
                IF here.not_before > snowflake_registry.unix_ms(clock_timestamp()) THEN
                    hint := format('If the registry has lost no transaction, call snowflake_registry.end_recovery() in it. '
                        'Else restart this server after %s.', snowflake_registry.display(here.not_before));
                END IF;
            ELSE
                refusal := format('The last server that has leased it is %s.', snowflake_registry.holder(found_lease));
                -- A failover could lose that. Another registry than the server's says nothing of its lease.
                is_proven := held_receipt = snowflake_registry.receipt_for(worker, presented[1], held_until, seen_revision);
                is_final := found_lease.revision >= here.restored_revision AND is_proven;
                -- It was given away before this lease ended: the registry has lost a transaction, which nothing else has shown,
                -- or the lease was ended by hand while the server runs, or this is a copy.
                must_stop := is_proven AND found_lease.begins_at < held_until;
                IF must_stop THEN
                    PERFORM snowflake_registry.note_conflict(found_lease, this, held_until);
                    -- Other leases may be lost, too. Unless this is a copy.
                    IF found_lease.system_identifier IS DISTINCT FROM this.system THEN
                        PERFORM snowflake_registry.check_restored(snowflake_registry.last_revision() + 1, 0);
                    END IF;
                END IF;
            END IF;
            RETURN;
        ELSIF found_lease.rule = 'forbidden' THEN
            is_final := false;
            refusal := 'It is forbidden. ' || snowflake_registry.comment_of(found_lease);
            hint := format('Call snowflake_registry.allow_worker(%s) in the registry to let the server go on.', worker);
            RETURN;
        END IF;
    END LOOP;
    now_ms := snowflake_registry.unix_ms(clock_timestamp());
    granted := greatest(found_lease.granted_until,
        snowflake_registry.grant_for(this.lease_ms, this.clock, now_ms, here.longest_lease));
    IF found_lease.revision IS NULL OR found_lease.revision < here.restored_revision THEN
        granted := greatest(granted, held_until);
        IF found_lease.worker_id IS NULL AND NOT snowflake_registry.insert_worker(worker) THEN
            RAISE EXCEPTION 'another server has just got worker %', worker USING ERRCODE = 'serialization_failure';
        END IF;
    END IF;
    at_revision := nextval('snowflake_registry.revision');
    UPDATE snowflake_registry.lease l SET token = new_token, granted_until = granted, issued_until = this.issued,
            since = coalesce(l.since, clock_timestamp()), is_used = true,
            revision = at_revision, renewed = clock_timestamp(), server = this.server, system_identifier = this.system,
            host = this.host, port = this.port, address = inet_client_addr(), role = session_user, layout = this.layout,
            clock_offset_ms = this.clock_offset, conflict = NULL
        WHERE l.worker_id = worker;
    conflict_note := found_lease.conflict;
    receipt := snowflake_registry.receipt_for(worker, new_token, granted, at_revision);
    layout_note := snowflake_registry.other_layout(this.layout, now_ms);
END $$;
COMMENT ON FUNCTION snowflake_registry.server_renew(uuid[], uuid, bigint, text, bigint, bigint, jsonb) IS
    'extend the lease of a server that goes on at its own mark; refusal says why if it does not have the worker any more';

CREATE OR REPLACE FUNCTION snowflake_registry.server_release(
    presented uuid[], new_token uuid, held_until bigint, held_receipt text, worker bigint,
    seen_revision bigint, lowered bigint, about jsonb,
    OUT granted bigint, OUT receipt text, OUT at_revision bigint)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '10s' AS $$
DECLARE
    here snowflake_registry.registry := snowflake_registry.check_restored(NULL, NULL);
    this record := snowflake_registry.read_about(about);
    found_lease snowflake_registry.lease;
    ends bigint := greatest(lowered, this.issued);
BEGIN
    IF new_token IS NULL OR lowered IS NULL THEN
        RAISE EXCEPTION 'invalid request' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT * INTO found_lease FROM snowflake_registry.lease l WHERE l.worker_id = worker;
    -- As in a renewal, since this row is newer than a restore afterwards.
    IF snowflake_registry.is_holder(found_lease, here, presented, held_until, held_receipt, worker, seen_revision,
        this) IS NOT TRUE
    THEN
        RETURN;
    END IF;
    IF found_lease.worker_id IS NULL THEN
        PERFORM snowflake_registry.insert_worker(worker);
    END IF;
    SELECT * INTO found_lease FROM snowflake_registry.lease l
        WHERE l.worker_id = worker FOR UPDATE;
    IF snowflake_registry.is_holder(found_lease, here, presented, held_until, held_receipt, worker, seen_revision,
        this) IS NOT TRUE
    THEN
        RETURN;
    END IF;
    ends := least(greatest(ends, found_lease.begins_at), held_until);
    IF (found_lease.token = ANY (presented)) IS NOT TRUE THEN
        -- The row is of an earlier lease, or of an earlier time of this one.
        ends := greatest(ends, found_lease.granted_until);
    ELSIF found_lease.revision >= here.restored_revision THEN
        ends := least(ends, found_lease.granted_until);
    END IF;
    at_revision := nextval('snowflake_registry.revision');
    UPDATE snowflake_registry.lease l
        SET token = new_token, granted_until = ends, issued_until = this.issued, since = coalesce(l.since, clock_timestamp()),
            -- A server that has issued nothing does not count.
            is_used = greatest(lowered, this.issued) > l.begins_at, revision = at_revision, renewed = clock_timestamp(),
            server = this.server, system_identifier = this.system, host = this.host, port = this.port,
            address = inet_client_addr(), role = session_user, layout = this.layout, clock_offset_ms = this.clock_offset
        WHERE l.worker_id = worker
        RETURNING l.granted_until INTO STRICT granted;
    receipt := snowflake_registry.receipt_for(worker, new_token, granted, at_revision);
END $$;
COMMENT ON FUNCTION snowflake_registry.server_release(uuid[], uuid, bigint, text, bigint, bigint, bigint, jsonb) IS
    'end a lease early: the server issues no ID at or above this time any more; NULL if it does not have the worker';

-- For people ----------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE VIEW snowflake_registry.workers AS
    SELECT l.worker_id,
        CASE
            WHEN l.rule = 'forbidden' THEN 'forbidden'
            WHEN snowflake_registry.time_of(l.granted_until) > clock_timestamp() AND l.token IS NOT NULL THEN 'leased'
            WHEN snowflake_registry.time_of(l.granted_until) > clock_timestamp() THEN 'waiting'
            WHEN l.rule = 'reserved' THEN 'reserved'
            ELSE 'free'
        END AS state,
        l.server, l.system_identifier, l.host, l.port, l.address, l.role, l.layout, l.since, l.renewed,
        CASE WHEN l.granted_until > 0 THEN snowflake_registry.time_of(l.granted_until) END AS until,
        CASE WHEN l.issued_until > 0 THEN snowflake_registry.time_of(l.issued_until) END AS reported_mark,
        l.clock_offset_ms * interval '1 ms' AS clock_offset, l.comment
    FROM snowflake_registry.lease l
    ORDER BY l.worker_id;
COMMENT ON VIEW snowflake_registry.workers IS 'workers that are or were leased, with the server that has or had each';
COMMENT ON COLUMN snowflake_registry.workers.state IS
    'leased; free; waiting (released by hand, and its old IDs may reach until); reserved (for a server that is configured with the number); forbidden';
COMMENT ON COLUMN snowflake_registry.workers.until IS
    'timestamps of its IDs are below this time; the next server begins there';
COMMENT ON COLUMN snowflake_registry.workers.reported_mark IS 'timestamps of its IDs were below this time when the server reported last';
COMMENT ON COLUMN snowflake_registry.workers.clock_offset IS 'how far the clock of the server was ahead of the registry''s';

CREATE OR REPLACE VIEW snowflake_registry.status AS
    SELECT r.version, r.longest_lease * interval '1 ms' AS longest_lease,
        CASE WHEN r.restored_at > 0 THEN snowflake_registry.time_of(r.restored_at) END AS restored,
        CASE WHEN snowflake_registry.time_of(r.not_before) > clock_timestamp()
            THEN snowflake_registry.time_of(r.not_before) END AS recovering_until,
        (SELECT array_agg(DISTINCT k.pid) FROM pg_locks k JOIN pg_stat_activity a USING (pid)
            WHERE k.relation = 'snowflake_registry.lease'::regclass AND k.mode IN ('RowShareLock', 'RowExclusiveLock') AND k.granted
                AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
                AND a.xact_start < clock_timestamp() - interval '10 seconds') AS held_up_by
    FROM snowflake_registry.registry r;
COMMENT ON VIEW snowflake_registry.status IS 'one row: the registry itself';
COMMENT ON COLUMN snowflake_registry.status.longest_lease IS 'how far leases reach ahead of its clock at most';
COMMENT ON COLUMN snowflake_registry.status.restored IS
    'when it was noticed that the registry was restored or has failed over; NULL for never, or after end_recovery()';
COMMENT ON COLUMN snowflake_registry.status.held_up_by IS
    'processes with a transaction on leases that has been open for ten seconds: nobody sees or gets the workers that it leases';
COMMENT ON COLUMN snowflake_registry.status.recovering_until IS
    'until then no worker is given to another server, since leases may have been lost; NULL at other times';

CREATE OR REPLACE FUNCTION snowflake_registry.check_worker(worker bigint) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (worker BETWEEN 0 AND 2147483647) IS NOT TRUE THEN
        RAISE EXCEPTION 'worker must be between 0 and 2147483647' USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;
COMMENT ON FUNCTION snowflake_registry.check_worker(bigint) IS 'an error if this can be no worker';

CREATE OR REPLACE FUNCTION snowflake_registry.set_rule(worker bigint, new_rule text, new_comment text)
    RETURNS void
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT snowflake_registry.check_worker(worker);
    INSERT INTO snowflake_registry.lease AS l (worker_id, rule, comment)
        VALUES (worker, new_rule, new_comment)
        ON CONFLICT (worker_id) DO UPDATE SET rule = excluded.rule, comment = excluded.comment
$$;
COMMENT ON FUNCTION snowflake_registry.set_rule(bigint, text, text) IS 'change who may lease a worker';

CREATE OR REPLACE FUNCTION snowflake_registry.reserve_worker(worker_id bigint, comment text DEFAULT NULL)
    RETURNS void
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS 'SELECT snowflake_registry.set_rule($1, ''reserved'', $2)';
COMMENT ON FUNCTION snowflake_registry.reserve_worker(bigint, text) IS
    'keep a worker for a server that is configured with this number; a server that has it renews it';

CREATE OR REPLACE FUNCTION snowflake_registry.forbid_worker(worker_id bigint, comment text DEFAULT NULL)
    RETURNS void
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS 'SELECT snowflake_registry.set_rule($1, ''forbidden'', $2)';
COMMENT ON FUNCTION snowflake_registry.forbid_worker(bigint, text) IS
    'give a worker to no server; one that has it issues IDs to the end of its lease';

CREATE OR REPLACE FUNCTION snowflake_registry.allow_worker(worker_id bigint) RETURNS void
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS 'SELECT snowflake_registry.check_worker($1);
        UPDATE snowflake_registry.lease l SET rule = ''free'', comment = NULL WHERE l.worker_id = $1';
COMMENT ON FUNCTION snowflake_registry.allow_worker(bigint) IS
    'undo reserve_worker() and forbid_worker()';

CREATE OR REPLACE FUNCTION snowflake_registry.release_worker(
    worker_id bigint, ids_end timestamptz DEFAULT clock_timestamp() + interval '10 seconds') RETURNS timestamptz
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    found_lease snowflake_registry.lease;
    lowered bigint;
    known_ms bigint;
BEGIN
    PERFORM snowflake_registry.check_worker(release_worker.worker_id);
    IF isfinite(release_worker.ids_end) IS NOT TRUE THEN
        RAISE EXCEPTION 'ids_end must be a time' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    lowered := snowflake_registry.unix_ms(release_worker.ids_end);
    SELECT * INTO found_lease FROM snowflake_registry.lease l
        WHERE l.worker_id = release_worker.worker_id FOR UPDATE;
    IF (found_lease.is_used OR found_lease.was_used) IS NOT TRUE THEN
        RAISE EXCEPTION 'worker % was never leased', release_worker.worker_id
            USING ERRCODE = 'undefined_object';
    END IF;
    known_ms := greatest(found_lease.issued_until, found_lease.begins_at, snowflake_registry.unix_ms(found_lease.renewed));
    IF lowered < known_ms THEN
        RAISE EXCEPTION 'ids_end is before the last IDs that the server can have issued' USING ERRCODE = 'invalid_parameter_value',
            DETAIL = format('It has reported IDs up to %s, and was last heard of at %s.',
                snowflake_registry.display(greatest(found_lease.issued_until, found_lease.begins_at)),
                snowflake_registry.display(snowflake_registry.unix_ms(found_lease.renewed))),
            HINT = 'Leave ids_end out if the clock of the server was right.';
    END IF;
    UPDATE snowflake_registry.lease l SET token = NULL, granted_until = least(l.granted_until, lowered)
        WHERE l.worker_id = release_worker.worker_id
        RETURNING l.granted_until INTO STRICT lowered;
    RETURN snowflake_registry.time_of(lowered);
END $$;
COMMENT ON FUNCTION snowflake_registry.release_worker(bigint, timestamptz) IS
    'end the lease of a server that will never issue IDs again; all its IDs must be below ids_end; returns when the lease ends';

CREATE OR REPLACE FUNCTION snowflake_registry.end_recovery() RETURNS void
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    -- It can be called before a server has.
    SELECT snowflake_registry.check_restored(NULL, NULL);
    UPDATE snowflake_registry.registry SET restored_at = 0, restored_revision = 0,
        not_before = least(not_before, snowflake_registry.unix_ms(clock_timestamp()));
    SELECT snowflake_registry.note_origin()
$$;
COMMENT ON FUNCTION snowflake_registry.end_recovery() IS
    'give workers to other servers again after a restore or failover of the registry, if no transaction of it was lost';

CREATE OR REPLACE FUNCTION snowflake_registry.set_longest_lease(length interval) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (length BETWEEN interval '5 seconds' AND interval '7 days') IS NOT TRUE THEN
        RAISE EXCEPTION 'longest lease must be between 5 seconds and 7 days' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM snowflake_registry.check_restored(NULL, NULL);
    UPDATE snowflake_registry.registry SET longest_lease = extract(epoch FROM length) * 1000;
    PERFORM snowflake_registry.note_origin();
END $$;
COMMENT ON FUNCTION snowflake_registry.set_longest_lease(interval) IS
    'limit how far leases reach ahead of the registry''s clock, an hour at first; so long no worker is given to another server after a restore';

CREATE OR REPLACE FUNCTION snowflake_registry.version() RETURNS integer
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS 'SELECT version FROM snowflake_registry.registry';
COMMENT ON FUNCTION snowflake_registry.version() IS 'version of the registry';

-- Privileges ---------------------------------------------------------------------------------------------------------------

-- Default privileges can have given something to others. What was granted since is kept.
DO $$
DECLARE
    other regrole;
    objects text;
BEGIN
    FOR other, objects IN
        SELECT DISTINCT a.grantee, o.objects FROM (
            SELECT n.nspacl, 'SCHEMA' FROM pg_namespace n WHERE n.nspname = 'snowflake_registry'
            UNION SELECT c.relacl, CASE c.relkind WHEN 'S' THEN 'ALL SEQUENCES IN SCHEMA' ELSE 'ALL TABLES IN SCHEMA' END
                FROM pg_class c WHERE c.relnamespace = 'snowflake_registry'::regnamespace
            UNION SELECT p.proacl, 'ALL FUNCTIONS IN SCHEMA' FROM pg_proc p WHERE p.pronamespace = 'snowflake_registry'::regnamespace
        ) AS o (acl, objects), aclexplode(o.acl) AS a
        WHERE a.grantee NOT IN (0, quote_ident(current_user)::regrole) AND current_setting('snowflake_registry.is_new')::boolean
    LOOP
        EXECUTE format('REVOKE ALL ON %s snowflake_registry FROM %s CASCADE', objects, other);
    END LOOP;
END $$;
REVOKE ALL ON SCHEMA snowflake_registry FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA snowflake_registry FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA snowflake_registry FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA snowflake_registry FROM PUBLIC;
GRANT USAGE ON SCHEMA snowflake_registry TO snowflake_registry_server, snowflake_registry_admin, pg_monitor;
GRANT SELECT ON snowflake_registry.workers, snowflake_registry.status TO snowflake_registry_admin, pg_monitor;
GRANT EXECUTE ON FUNCTION snowflake_registry.time_of(bigint) TO snowflake_registry_admin, pg_monitor;
GRANT EXECUTE ON FUNCTION snowflake_registry.version() TO snowflake_registry_server, snowflake_registry_admin, pg_monitor;
GRANT EXECUTE ON FUNCTION
    snowflake_registry.server_hello(uuid, bigint, text, bigint, bigint),
    snowflake_registry.server_claim(uuid[], uuid, bigint, bigint, bigint, bigint, jsonb),
    snowflake_registry.server_renew(uuid[], uuid, bigint, text, bigint, bigint, jsonb),
    snowflake_registry.server_release(uuid[], uuid, bigint, text, bigint, bigint, bigint, jsonb)
    TO snowflake_registry_server;
GRANT EXECUTE ON FUNCTION
    snowflake_registry.reserve_worker(bigint, text),
    snowflake_registry.forbid_worker(bigint, text),
    snowflake_registry.allow_worker(bigint),
    snowflake_registry.release_worker(bigint, timestamptz),
    snowflake_registry.end_recovery(),
    snowflake_registry.set_longest_lease(interval)
    TO snowflake_registry_admin;

COMMIT;
\set QUIET :was_quiet
\unset was_quiet
