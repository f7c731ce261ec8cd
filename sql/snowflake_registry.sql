-- The registry of worker IDs for snowflake_pg: plain SQL, for a database of PostgreSQL 15 or newer, which needs no
-- extension. To be installed by psql -f; run again, it brings an older version up to this one, and loses nothing.
--
-- The registry grants a worker to a server for IDs with timestamps below `granted_until`. Whoever gets the worker next
-- begins there, or later. So two servers that both believe to have a worker never issue the same ID, whatever clocks
-- show. Clocks only decide when a worker is free. See docs/workers.md.

\set ON_ERROR_STOP on
BEGIN;

-- Nothing of another role's is used, whatever this database has.
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL client_min_messages = warning;

DO $$
DECLARE
    other text;
BEGIN
    SELECT n.nspowner::regrole::text INTO other FROM pg_namespace n
        WHERE n.nspname = 'snowflake_registry' AND n.nspowner <> current_user::regrole
    UNION SELECT c.relowner::regrole::text FROM pg_class c
        WHERE c.relnamespace = to_regnamespace('snowflake_registry') AND c.relowner <> current_user::regrole
    UNION SELECT p.proowner::regrole::text FROM pg_proc p
        WHERE p.pronamespace = to_regnamespace('snowflake_registry') AND p.proowner <> current_user::regrole
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
END $$;

CREATE SCHEMA IF NOT EXISTS snowflake_registry;
COMMENT ON SCHEMA snowflake_registry IS 'worker IDs of snowflake_pg, leased to servers';

-- Tables: only the functions below write them ---------------------------------------------------------------------------

CREATE TABLE IF NOT EXISTS snowflake_registry.registry (
    is_only_row boolean PRIMARY KEY DEFAULT true CHECK (is_only_row),
    version integer NOT NULL,
    system_identifier bigint NOT NULL,
    timeline bigint NOT NULL,
    restored_at bigint NOT NULL DEFAULT 0,
    restored_revision bigint NOT NULL DEFAULT 0,
    not_before bigint NOT NULL DEFAULT 0,
    secret uuid NOT NULL DEFAULT gen_random_uuid()
);
COMMENT ON TABLE snowflake_registry.registry IS 'one row: the registry itself';
COMMENT ON COLUMN snowflake_registry.registry.version IS 'version of the script that was run last';
COMMENT ON COLUMN snowflake_registry.registry.timeline IS
    'of this cluster, as system_identifier; another one means that the registry was restored or has failed over';
COMMENT ON COLUMN snowflake_registry.registry.restored_at IS 'when that was noticed last, in Unix milliseconds; 0 for never';
COMMENT ON COLUMN snowflake_registry.registry.restored_revision IS 'leases with a lower revision were not renewed since';
COMMENT ON COLUMN snowflake_registry.registry.secret IS 'for receipts, which no other can make';
COMMENT ON COLUMN snowflake_registry.registry.not_before IS
    'no worker is given to another server before this time, in Unix milliseconds: leases may have been lost';

CREATE TABLE IF NOT EXISTS snowflake_registry.lease (
    datacenter_id bigint NOT NULL CHECK (datacenter_id >= 0),
    worker_id bigint NOT NULL CHECK (worker_id >= 0),
    token uuid UNIQUE,
    begins_at bigint NOT NULL DEFAULT 0,
    granted_until bigint NOT NULL DEFAULT 0,
    issued_until bigint NOT NULL DEFAULT 0,
    revision bigint NOT NULL DEFAULT 0,
    renewed timestamptz,
    since timestamptz,
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
    PRIMARY KEY (datacenter_id, worker_id)
);
COMMENT ON TABLE snowflake_registry.lease IS 'a row for each worker that was ever leased, reserved or forbidden';
COMMENT ON COLUMN snowflake_registry.lease.token IS 'secret of the server that has the worker; a new one with each renewal';
COMMENT ON COLUMN snowflake_registry.lease.begins_at IS
    'where the IDs of this server began, in Unix milliseconds';
COMMENT ON COLUMN snowflake_registry.lease.granted_until IS
    'timestamps of its IDs are below this time, in Unix milliseconds; those of the next server are not';
COMMENT ON COLUMN snowflake_registry.lease.issued_until IS
    'timestamps of its IDs were below this time when it reported last, in Unix milliseconds';
COMMENT ON COLUMN snowflake_registry.lease.rule IS
    'free: for any server; reserved: only for a server that is configured with this number; forbidden: for none';

-- Grows with each change. A server that has seen a higher number knows a later state of this registry.
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
COMMENT ON FUNCTION snowflake_registry.display(bigint) IS 'the same as a text for messages';

CREATE OR REPLACE FUNCTION snowflake_registry.holder(lease snowflake_registry.lease) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN format('%s on host "%s"%s', coalesce('server "' || (lease).server || '"', 'system identifier ' || (lease).system_identifier),
        (lease).host, coalesce(', address ' || host((lease).address), ''));
COMMENT ON FUNCTION snowflake_registry.holder(snowflake_registry.lease) IS 'the server of a lease, for messages';

CREATE OR REPLACE FUNCTION snowflake_registry.own_timeline() RETURNS bigint
    LANGUAGE sql STABLE
    RETURN ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint;
COMMENT ON FUNCTION snowflake_registry.own_timeline() IS
    'timeline of this cluster; the control file, which pg_control_checkpoint() reads, is behind after a promotion';

CREATE OR REPLACE FUNCTION snowflake_registry.last_revision() RETURNS bigint
    LANGUAGE sql VOLATILE
    RETURN (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM snowflake_registry.revision);
COMMENT ON FUNCTION snowflake_registry.last_revision() IS 'the state of this registry';

CREATE OR REPLACE FUNCTION snowflake_registry.check_restored(seen_revision bigint) RETURNS snowflake_registry.registry
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    here snowflake_registry.registry;
    own_system bigint := (pg_control_system()).system_identifier;
    own_line bigint := snowflake_registry.own_timeline();
    furthest bigint;
BEGIN
    -- What was committed must not be lost in a crash, whatever the settings of this database or role are.
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    SELECT * INTO STRICT here FROM snowflake_registry.registry;
    IF here.system_identifier = own_system AND here.timeline = own_line
        AND coalesce(seen_revision, 0) <= snowflake_registry.last_revision()
    THEN
        RETURN here;
    END IF;
    SELECT * INTO STRICT here FROM snowflake_registry.registry FOR UPDATE;
    IF here.system_identifier = own_system AND here.timeline = own_line
        AND coalesce(seen_revision, 0) <= snowflake_registry.last_revision()
    THEN
        RETURN here;
    END IF;
    -- Leases that were lost end like those that are known. A minute more, since the clock may be another machine's.
    SELECT greatest(3600000, max(l.granted_until - snowflake_registry.unix_ms(l.renewed))) + 60000 INTO furthest
        FROM snowflake_registry.lease l;
    UPDATE snowflake_registry.registry SET system_identifier = own_system, timeline = own_line,
        restored_at = snowflake_registry.unix_ms(clock_timestamp()),
        restored_revision = nextval('snowflake_registry.revision'),
        not_before = snowflake_registry.unix_ms(clock_timestamp()) + furthest
        RETURNING * INTO STRICT here;
    PERFORM setval('snowflake_registry.revision', greatest(seen_revision, here.restored_revision));
    RETURN here;
END $$;
COMMENT ON FUNCTION snowflake_registry.check_restored(bigint) IS
    'note a restore or a failover of the registry, after which leases may be missing';

CREATE OR REPLACE FUNCTION snowflake_registry.receipt_for(
    datacenter bigint, worker bigint, token uuid, granted bigint, revision bigint) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT encode(sha256(convert_to(secret || encode(sha256(convert_to(concat_ws(' ', secret, datacenter, worker, token, granted,
        revision), 'UTF8')), 'hex'), 'UTF8')), 'hex') FROM snowflake_registry.registry
$$;
COMMENT ON FUNCTION snowflake_registry.receipt_for(bigint, bigint, uuid, bigint, bigint) IS
    'proof that this registry has granted a lease, even if it has lost it in a restore';

INSERT INTO snowflake_registry.registry (version, system_identifier, timeline)
    VALUES (1, (pg_control_system()).system_identifier, snowflake_registry.own_timeline())
    ON CONFLICT (is_only_row) DO UPDATE SET version = excluded.version;

-- For servers ---------------------------------------------------------------------------------------------------------------
--
-- Each change takes a token that the server had, and leaves a new one that the server has chosen. So a copy of a server
-- has an old token as soon as its original has renewed its lease. A call whose answer was lost is repeated with the
-- same new token, and changes nothing.

CREATE OR REPLACE FUNCTION snowflake_registry.server_hello(
    held_token uuid, held_until bigint, held_receipt text, datacenter bigint, worker bigint, seen_revision bigint,
    OUT version integer, OUT clock bigint)
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '10s' AS $$
    SELECT version, snowflake_registry.unix_ms(clock_timestamp()) FROM snowflake_registry.check_restored(
        -- Whoever has a receipt of this registry knows a state of it.
        CASE WHEN held_receipt = snowflake_registry.receipt_for(datacenter, worker, held_token, held_until, seen_revision)
            THEN seen_revision END)
$$;
COMMENT ON FUNCTION snowflake_registry.server_hello(uuid, bigint, text, bigint, bigint, bigint) IS
    'to be called first: version of the registry, and what its clock shows, in Unix milliseconds; notes a restore, also if the next call fails';

CREATE OR REPLACE FUNCTION snowflake_registry.server_claim(
    presented uuid[], new_token uuid, datacenter bigint, configured bigint, greatest_worker bigint,
    lease_ms bigint, server_clock bigint, clock_offset bigint,
    of_layout text, of_server text, of_system text, of_host text, of_port integer,
    OUT worker bigint, OUT begins bigint, OUT granted bigint, OUT receipt text, OUT at_revision bigint, OUT other text)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '10s' AS $$
DECLARE
    here snowflake_registry.registry := snowflake_registry.check_restored(NULL);
    now_ms bigint;
    found_lease snowflake_registry.lease;
    is_new boolean;
    known bigint;
    unused bigint;
    counted record;
BEGIN
    IF new_token IS NULL OR lease_ms IS NULL OR lease_ms NOT BETWEEN 1000 AND 86400000 THEN
        RAISE EXCEPTION 'invalid request' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    now_ms := snowflake_registry.unix_ms(clock_timestamp());
    IF server_clock > now_ms + 86400000 THEN
        RAISE EXCEPTION 'clock of the server is more than a day ahead of the registry''s'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                DETAIL = format('It shows %s, and the registry''s %s.', snowflake_registry.display(server_clock),
                    snowflake_registry.display(now_ms));
    END IF;
    at_revision := nextval('snowflake_registry.revision');

    -- A claim whose answer was lost.
    SELECT * INTO found_lease FROM snowflake_registry.lease l WHERE l.token = new_token AND l.datacenter_id = datacenter;
    IF FOUND THEN
        worker := found_lease.worker_id;
        begins := found_lease.begins_at;
        granted := found_lease.granted_until;
        at_revision := found_lease.revision;
        receipt := snowflake_registry.receipt_for(datacenter, worker, new_token, granted, at_revision);
        RETURN;
    END IF;

    -- The worker that this server had, if that is free.
    SELECT * INTO found_lease FROM snowflake_registry.lease l WHERE l.token = ANY (presented)
        AND l.datacenter_id = datacenter AND l.worker_id <= greatest_worker
        AND (l.worker_id = configured OR configured IS NULL AND l.rule = 'free') FOR UPDATE;
    IF FOUND AND found_lease.rule <> 'forbidden'
        -- What it has released ends within its reservation.
        AND found_lease.granted_until <= now_ms + 5000 AND here.not_before <= now_ms
    THEN
        worker := found_lease.worker_id;
        begins := greatest(found_lease.granted_until, here.not_before);
    ELSIF FOUND THEN
        other := snowflake_registry.holder(found_lease);
    END IF;

    -- The configured worker.
    WHILE worker IS NULL AND configured IS NOT NULL LOOP
        SELECT * INTO found_lease FROM snowflake_registry.lease l
            WHERE l.datacenter_id = datacenter AND l.worker_id = configured FOR UPDATE;
        is_new := NOT FOUND;
        begins := greatest(found_lease.granted_until, here.not_before);
        IF found_lease.rule = 'forbidden' THEN
            RAISE EXCEPTION 'worker % is forbidden', configured USING ERRCODE = 'object_not_in_prerequisite_state',
                DETAIL = coalesce(found_lease.comment, 'The registry has no comment about it.');
        ELSIF here.not_before > now_ms AND here.not_before >= begins THEN
            EXIT;
        ELSIF begins > now_ms THEN
            RAISE EXCEPTION 'worker % of data center % has another server', configured, datacenter
                USING ERRCODE = 'object_not_in_prerequisite_state',
                    DETAIL = format('It is leased until %s to %s.', snowflake_registry.display(begins),
                        snowflake_registry.holder(found_lease)),
                    HINT = format('Stop that server, which releases the worker, or configure another worker. If it will never issue '
                        'IDs again, call snowflake_registry.release_worker(%s, %s) in the registry.', datacenter, configured);
        ELSIF is_new THEN
            INSERT INTO snowflake_registry.lease (datacenter_id, worker_id) VALUES (datacenter, configured)
                ON CONFLICT DO NOTHING;
            CONTINUE WHEN NOT FOUND;
        END IF;
        worker := configured;
    END LOOP;

    -- Any worker: one that nobody had before. Those who claim at the same time do not wait for each other: each tries
    -- the next number if the lock of one is taken.
    IF worker IS NULL AND configured IS NULL AND here.not_before <= now_ms THEN
        SELECT count(*) INTO known FROM snowflake_registry.lease l WHERE l.datacenter_id = datacenter;
        FOR unused IN SELECT n FROM generate_series(0, least(greatest_worker, known + 1000)) n
            WHERE NOT EXISTS (SELECT FROM snowflake_registry.lease l WHERE l.datacenter_id = datacenter AND l.worker_id = n)
            ORDER BY n
        LOOP
            CONTINUE WHEN NOT pg_try_advisory_xact_lock(hashtextextended(concat_ws(' ', 'snowflake_registry', datacenter, unused), 0));
            INSERT INTO snowflake_registry.lease (datacenter_id, worker_id) VALUES (datacenter, unused) ON CONFLICT DO NOTHING;
            CONTINUE WHEN NOT FOUND;
            worker := unused;
            begins := here.not_before;
            EXIT;
        END LOOP;
    END IF;
    -- Else the one whose lease ended first.
    IF worker IS NULL AND configured IS NULL AND here.not_before <= now_ms THEN
        SELECT l.worker_id, greatest(l.granted_until, here.not_before) INTO worker, begins FROM snowflake_registry.lease l
            WHERE l.datacenter_id = datacenter AND l.worker_id <= greatest_worker AND l.rule = 'free'
                AND l.granted_until <= now_ms
            ORDER BY l.granted_until, l.worker_id LIMIT 1 FOR UPDATE SKIP LOCKED;
    END IF;
    IF worker IS NULL AND here.not_before > now_ms THEN
        RAISE EXCEPTION 'registry was restored or has failed over' USING ERRCODE = 'object_not_in_prerequisite_state',
            DETAIL = format('Leases may have been lost. It gives no worker to another server before %s.',
                snowflake_registry.display(here.not_before));
    ELSIF worker IS NULL THEN
        SELECT count(*) FILTER (WHERE l.rule = 'free') AS leased, count(*) FILTER (WHERE l.rule <> 'free') AS kept,
                min(l.granted_until) FILTER (WHERE l.rule = 'free') AS next_end
            INTO counted FROM snowflake_registry.lease l
            WHERE l.datacenter_id = datacenter AND l.worker_id <= greatest_worker;
        SELECT l.* INTO found_lease FROM snowflake_registry.lease l
            WHERE l.datacenter_id = datacenter AND l.worker_id <= greatest_worker AND l.rule = 'free'
            ORDER BY l.granted_until LIMIT 1;
        RAISE EXCEPTION 'no worker of data center % is free', datacenter USING ERRCODE = 'configuration_limit_exceeded',
            DETAIL = format('Of %s workers, %s are leased, and %s reserved or forbidden.%s', greatest_worker + 1,
                counted.leased, counted.kept, CASE WHEN counted.next_end IS NOT NULL THEN
                    format(' The next lease to end is that of worker %s, %s, at %s unless it is renewed.', found_lease.worker_id,
                        snowflake_registry.holder(found_lease), snowflake_registry.display(counted.next_end)) END),
            HINT = 'See the view snowflake_registry.workers of the registry. Choose a layout with room for more workers.';
    END IF;

    -- The row is this transaction's.
    UPDATE snowflake_registry.lease l SET token = new_token, begins_at = begins,
            granted_until = greatest(l.granted_until, begins, greatest(now_ms, server_clock) + lease_ms), issued_until = 0,
            revision = at_revision, renewed = clock_timestamp(), since = clock_timestamp(), server = of_server,
            system_identifier = of_system, host = of_host, port = of_port, address = inet_client_addr(), role = session_user,
            layout = of_layout, clock_offset_ms = clock_offset
        WHERE l.datacenter_id = datacenter AND l.worker_id = worker
        RETURNING l.granted_until INTO STRICT granted;
    receipt := snowflake_registry.receipt_for(datacenter, worker, new_token, granted, at_revision);
END $$;
COMMENT ON FUNCTION snowflake_registry.server_claim(
    uuid[], uuid, bigint, bigint, bigint, bigint, bigint, bigint, text, text, text, text, integer) IS
    'lease a free worker: the one that the server had, the one that it is configured with, or any; its IDs begin at begins, above all that another server can have issued';

CREATE OR REPLACE FUNCTION snowflake_registry.server_renew(
    presented uuid[], new_token uuid, held_until bigint, held_receipt text, datacenter bigint, worker bigint,
    lease_ms bigint, server_clock bigint, clock_offset bigint, issued bigint, seen_revision bigint,
    of_layout text, of_server text, of_system text, of_host text, of_port integer,
    OUT granted bigint, OUT receipt text, OUT at_revision bigint, OUT other text)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '10s' AS $$
DECLARE
    here snowflake_registry.registry := snowflake_registry.check_restored(NULL);
    now_ms bigint;
    found_lease snowflake_registry.lease;
    is_beyond boolean;
    is_current boolean;
    is_holder boolean;
BEGIN
    IF new_token IS NULL OR lease_ms IS NULL OR lease_ms NOT BETWEEN 1000 AND 86400000 THEN
        RAISE EXCEPTION 'invalid request' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT * INTO found_lease FROM snowflake_registry.lease l
        WHERE l.datacenter_id = datacenter AND l.worker_id = worker FOR UPDATE;
    now_ms := snowflake_registry.unix_ms(clock_timestamp());
    at_revision := nextval('snowflake_registry.revision');
    IF found_lease.token = new_token THEN
        -- A renewal whose answer was lost.
        granted := found_lease.granted_until;
        at_revision := found_lease.revision;
        receipt := snowflake_registry.receipt_for(datacenter, worker, new_token, granted, at_revision);
        RETURN;
    END IF;
    -- After a restore, other holders and what came after a lease may have been lost. Only the last holder of a worker has
    -- a grant beyond the time of the restore.
    is_beyond := here.restored_at = 0 OR held_until > here.restored_at + least(60000, lease_ms / 10);
    is_current := found_lease.revision >= here.restored_revision AND found_lease.revision > 0;
    IF is_current THEN
        -- The second condition: a claim that arrives late gives its token to the row again, after other holders.
        is_holder := is_beyond AND held_until >= found_lease.begins_at AND found_lease.token = ANY (presented);
    ELSE
        is_holder := is_beyond AND coalesce(found_lease.revision, 0) <= seen_revision
            AND held_receipt = snowflake_registry.receipt_for(datacenter, worker, presented[1], held_until, seen_revision);
    END IF;
    IF is_holder IS NOT TRUE OR found_lease.rule = 'forbidden' OR server_clock > now_ms + 86400000 THEN
        other := coalesce(snowflake_registry.holder(found_lease), '');
        RETURN;
    END IF;
    IF found_lease.worker_id IS NULL THEN
        INSERT INTO snowflake_registry.lease (datacenter_id, worker_id, since) VALUES (datacenter, worker, clock_timestamp())
            ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'another server has just got worker %', worker USING ERRCODE = 'serialization_failure';
        END IF;
    END IF;
    -- What the server says that it holds counts only by a receipt.
    granted := greatest(found_lease.granted_until, CASE WHEN NOT is_current THEN held_until END,
        greatest(now_ms, server_clock) + lease_ms);
    UPDATE snowflake_registry.lease l SET token = new_token, granted_until = granted, issued_until = issued,
            revision = at_revision, renewed = clock_timestamp(), server = of_server, system_identifier = of_system,
            host = of_host, port = of_port, address = inet_client_addr(), role = session_user, layout = of_layout,
            clock_offset_ms = clock_offset
        WHERE l.datacenter_id = datacenter AND l.worker_id = worker;
    receipt := snowflake_registry.receipt_for(datacenter, worker, new_token, granted, at_revision);
END $$;
COMMENT ON FUNCTION snowflake_registry.server_renew(
    uuid[], uuid, bigint, text, bigint, bigint, bigint, bigint, bigint, bigint, bigint, text, text, text, text, integer) IS
    'extend the lease of a server that goes on at its own mark; granted is NULL if it does not have the worker any more';

CREATE OR REPLACE FUNCTION snowflake_registry.server_release(
    presented uuid[], new_token uuid, datacenter bigint, worker bigint, lowered bigint, issued bigint,
    OUT at_revision bigint)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '10s' AS $$
BEGIN
    PERFORM snowflake_registry.check_restored(NULL);
    at_revision := nextval('snowflake_registry.revision');
    UPDATE snowflake_registry.lease l
        SET token = new_token, granted_until = least(l.granted_until, greatest(lowered, issued, l.begins_at)), issued_until = issued,
            revision = at_revision, renewed = clock_timestamp()
        WHERE l.datacenter_id = datacenter AND l.worker_id = worker AND l.token = ANY (presented)
            AND new_token IS NOT NULL AND lowered IS NOT NULL;
END $$;
COMMENT ON FUNCTION snowflake_registry.server_release(uuid[], uuid, bigint, bigint, bigint, bigint) IS
    'end a lease early: the server issues no ID at or above this time any more';

-- For people ----------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE VIEW snowflake_registry.workers AS
    SELECT l.datacenter_id, l.worker_id,
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
    ORDER BY l.datacenter_id, l.worker_id;
COMMENT ON VIEW snowflake_registry.workers IS 'workers that are or were leased, with the server that has or had each';
COMMENT ON COLUMN snowflake_registry.workers.state IS
    'leased; free; waiting (released by hand, and its old IDs may reach until); reserved (for a server that is configured with the number); forbidden';
COMMENT ON COLUMN snowflake_registry.workers.until IS
    'timestamps of its IDs are below this time; the next server begins there';
COMMENT ON COLUMN snowflake_registry.workers.reported_mark IS 'timestamps of its IDs were below this time when the server reported last';
COMMENT ON COLUMN snowflake_registry.workers.clock_offset IS 'how far the clock of the server was ahead of the registry''s';

CREATE OR REPLACE FUNCTION snowflake_registry.set_rule(datacenter bigint, worker bigint, new_rule text, new_comment text)
    RETURNS void
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO snowflake_registry.lease AS l (datacenter_id, worker_id, rule, comment, granted_until)
        SELECT datacenter, worker, new_rule, new_comment, r.not_before FROM snowflake_registry.registry r FOR UPDATE
        ON CONFLICT (datacenter_id, worker_id) DO UPDATE SET rule = excluded.rule, comment = excluded.comment
$$;
COMMENT ON FUNCTION snowflake_registry.set_rule(bigint, bigint, text, text) IS 'for the three functions that follow';

CREATE OR REPLACE FUNCTION snowflake_registry.reserve_worker(datacenter_id bigint, worker_id bigint, comment text DEFAULT NULL)
    RETURNS void
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS 'SELECT snowflake_registry.set_rule($1, $2, ''reserved'', $3)';
COMMENT ON FUNCTION snowflake_registry.reserve_worker(bigint, bigint, text) IS
    'keep a worker for a server that is configured with this number; a server that has it keeps it while it runs';

CREATE OR REPLACE FUNCTION snowflake_registry.forbid_worker(datacenter_id bigint, worker_id bigint, comment text DEFAULT NULL)
    RETURNS void
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS 'SELECT snowflake_registry.set_rule($1, $2, ''forbidden'', $3)';
COMMENT ON FUNCTION snowflake_registry.forbid_worker(bigint, bigint, text) IS
    'give a worker to no server; one that has it issues IDs to the end of its lease';

CREATE OR REPLACE FUNCTION snowflake_registry.allow_worker(datacenter_id bigint, worker_id bigint) RETURNS void
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS 'SELECT snowflake_registry.set_rule($1, $2, ''free'', NULL)';
COMMENT ON FUNCTION snowflake_registry.allow_worker(bigint, bigint) IS
    'undo reserve_worker() and forbid_worker()';

CREATE OR REPLACE FUNCTION snowflake_registry.release_worker(
    datacenter_id bigint, worker_id bigint, ids_end timestamptz DEFAULT clock_timestamp() + interval '10 seconds') RETURNS timestamptz
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    found_lease snowflake_registry.lease;
    lowered bigint := snowflake_registry.unix_ms(release_worker.ids_end);
BEGIN
    SELECT * INTO found_lease FROM snowflake_registry.lease l
        WHERE l.datacenter_id = release_worker.datacenter_id AND l.worker_id = release_worker.worker_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'worker % of data center % was never leased', release_worker.worker_id, release_worker.datacenter_id
            USING ERRCODE = 'undefined_object';
    ELSIF lowered < found_lease.issued_until OR lowered < found_lease.begins_at THEN
        RAISE EXCEPTION 'server has reported later IDs' USING ERRCODE = 'invalid_parameter_value',
            DETAIL = format('It has reported IDs up to %s.',
                snowflake_registry.display(greatest(found_lease.issued_until, found_lease.begins_at)));
    END IF;
    UPDATE snowflake_registry.lease l SET token = NULL, granted_until = least(l.granted_until, lowered)
        WHERE l.datacenter_id = release_worker.datacenter_id AND l.worker_id = release_worker.worker_id
        RETURNING l.granted_until INTO STRICT lowered;
    RETURN snowflake_registry.time_of(lowered);
END $$;
COMMENT ON FUNCTION snowflake_registry.release_worker(bigint, bigint, timestamptz) IS
    'end the lease of a server that will never issue IDs again; all its IDs must be below ids_end; returns when the worker is free';

CREATE OR REPLACE FUNCTION snowflake_registry.end_recovery() RETURNS void
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS 'UPDATE snowflake_registry.registry SET not_before = least(not_before, snowflake_registry.unix_ms(clock_timestamp()))';
COMMENT ON FUNCTION snowflake_registry.end_recovery() IS
    'give workers to other servers again after a restore or failover of the registry, if no transaction of it was lost';

CREATE OR REPLACE FUNCTION snowflake_registry.version() RETURNS integer
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS 'SELECT version FROM snowflake_registry.registry';
COMMENT ON FUNCTION snowflake_registry.version() IS 'version of the registry';

-- Privileges ---------------------------------------------------------------------------------------------------------------

REVOKE ALL ON SCHEMA snowflake_registry FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA snowflake_registry FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA snowflake_registry FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA snowflake_registry FROM PUBLIC;
GRANT USAGE ON SCHEMA snowflake_registry TO snowflake_registry_server, snowflake_registry_admin, pg_monitor;
GRANT SELECT ON snowflake_registry.workers TO snowflake_registry_admin, pg_monitor;
GRANT EXECUTE ON FUNCTION snowflake_registry.time_of(bigint) TO snowflake_registry_admin, pg_monitor;
GRANT EXECUTE ON FUNCTION snowflake_registry.version() TO snowflake_registry_server, snowflake_registry_admin, pg_monitor;
GRANT EXECUTE ON FUNCTION
    snowflake_registry.server_hello(uuid, bigint, text, bigint, bigint, bigint),
    snowflake_registry.server_claim(uuid[], uuid, bigint, bigint, bigint, bigint, bigint, bigint, text, text, text, text,
        integer),
    snowflake_registry.server_renew(uuid[], uuid, bigint, text, bigint, bigint, bigint, bigint, bigint, bigint, bigint, text,
        text, text, text, integer),
    snowflake_registry.server_release(uuid[], uuid, bigint, bigint, bigint, bigint)
    TO snowflake_registry_server;
GRANT EXECUTE ON FUNCTION
    snowflake_registry.reserve_worker(bigint, bigint, text),
    snowflake_registry.forbid_worker(bigint, bigint, text),
    snowflake_registry.allow_worker(bigint, bigint),
    snowflake_registry.release_worker(bigint, bigint, timestamptz),
    snowflake_registry.end_recovery()
    TO snowflake_registry_admin;

COMMIT;
