-- The registry of worker IDs for snowflake_pg: plain SQL, for a database of PostgreSQL 15 or newer. `make install`
-- joins the files of this folder into the script of the extension snowflake_registry, and `make pack NAME=scripts` into
-- one for psql, with script.psql. An upgrade runs the same statements, and loses nothing.
--
-- The registry grants a worker to a server for IDs with timestamps below `granted_until`. The next server with that
-- worker begins there, or later. So two servers that both believe they have a worker never issue the same ID, whatever
-- their clocks show. Clocks only decide when a worker is free. See docs/registry.md.

DO $$
DECLARE
    other text;
BEGIN
    -- Before owners are compared. An IF NOT EXISTS later could meet a schema that another role has made meanwhile.
    IF to_regnamespace('snowflake_registry') IS NULL THEN
        CREATE SCHEMA snowflake_registry;
    END IF;
    SELECT n.nspowner::regrole::text INTO other FROM pg_namespace n
        WHERE n.nspname = 'snowflake_registry' AND n.nspowner <> quote_ident(current_user)::regrole
    UNION SELECT c.relowner::regrole::text FROM pg_class c
        WHERE c.relnamespace = to_regnamespace('snowflake_registry')
            AND c.relowner <> quote_ident(current_user)::regrole
    UNION SELECT p.proowner::regrole::text FROM pg_proc p
        WHERE p.pronamespace = to_regnamespace('snowflake_registry')
            AND p.proowner <> quote_ident(current_user)::regrole
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'schema snowflake_registry has objects of another role'
            USING ERRCODE = 'insufficient_privilege',
            DETAIL = format('Their owner is %s.', other),
            HINT = 'Use the role that installed the registry, or a database of its own.';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'snowflake_registry_server') THEN
        CREATE ROLE snowflake_registry_server NOLOGIN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'snowflake_registry_admin') THEN
        CREATE ROLE snowflake_registry_admin NOLOGIN;
    END IF;
    PERFORM set_config('snowflake_registry.is_new', (to_regclass('snowflake_registry.lease') IS NULL)::text, true);
    PERFORM set_config('snowflake_registry.is_extension',
        EXISTS (SELECT FROM pg_extension WHERE extname = 'snowflake_registry')::text, true);
END $$;

-- A registry that the script for psql has made becomes the extension's, with its leases. Tables and views of others
-- stay theirs: a dump would not have them.
DO $$
DECLARE
    type text;
    name text;
BEGIN
    FOR type, name IN
        SELECT i.type, i.identity FROM (
            SELECT 'pg_namespace'::regclass, n.oid FROM pg_namespace n WHERE n.nspname = 'snowflake_registry'
            UNION SELECT 'pg_class'::regclass, c.oid FROM pg_class c
                WHERE c.relnamespace = to_regnamespace('snowflake_registry')
                AND c.relname IN ('registry', 'lease', 'revision', 'workers', 'status')
            UNION SELECT 'pg_proc'::regclass, p.oid FROM pg_proc p
                WHERE p.pronamespace = to_regnamespace('snowflake_registry')
        ) AS o (class, id), pg_identify_object(o.class, o.id, 0) AS i
        WHERE current_setting('snowflake_registry.is_extension')::boolean
            AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = o.class AND d.objid = o.id AND d.deptype = 'e')
    LOOP
        EXECUTE format('ALTER EXTENSION snowflake_registry ADD %s %s', type, name);
    END LOOP;
END $$;

COMMENT ON SCHEMA snowflake_registry IS 'worker IDs of snowflake_pg, leased to servers';

-- Tables: only functions write them

CREATE TABLE IF NOT EXISTS snowflake_registry.registry (
    is_only_row boolean PRIMARY KEY DEFAULT true CHECK (is_only_row),
    registry_version integer NOT NULL,
    system_identifier bigint NOT NULL,
    timeline bigint NOT NULL,
    storage text NOT NULL,
    restored_at bigint NOT NULL DEFAULT 0,
    restored_revision bigint NOT NULL DEFAULT 0,
    reached_revision bigint NOT NULL DEFAULT 0,
    not_before bigint NOT NULL DEFAULT 0,
    longest_lease_ms bigint NOT NULL DEFAULT 3600000,
    secret uuid NOT NULL DEFAULT gen_random_uuid()
);
COMMENT ON TABLE snowflake_registry.registry IS 'one row: the registry itself';
COMMENT ON COLUMN snowflake_registry.registry.registry_version IS 'version of the script that was run last';
COMMENT ON COLUMN snowflake_registry.registry.timeline IS
    'timeline of this cluster; another timeline or system_identifier means that the registry was restored or has '
    'failed over';
COMMENT ON COLUMN snowflake_registry.registry.storage IS
    'the table and the file of the leases, and the transaction that wrote this row; others mean that the leases were '
    'restored from a dump, or rewritten';
COMMENT ON COLUMN snowflake_registry.registry.restored_at IS
    'when a restore or failover was last noticed, in Unix milliseconds; 0 for never, or after end_recovery()';
COMMENT ON COLUMN snowflake_registry.registry.restored_revision IS
    'leases with a lower revision have not been renewed since the restore';
COMMENT ON COLUMN snowflake_registry.registry.reached_revision IS
    'highest revision known from servers, though leases of that revision may be lost';
COMMENT ON COLUMN snowflake_registry.registry.longest_lease_ms IS
    'how far ahead of the registry''s clock a grant reaches at most, in milliseconds; after a restore, not_before is '
    'that far ahead';
COMMENT ON COLUMN snowflake_registry.registry.secret IS 'secret for receipts, which nobody else can make';
COMMENT ON COLUMN snowflake_registry.registry.not_before IS
    'no worker is leased to another server before this time, in Unix milliseconds: leases may have been lost';

CREATE TABLE IF NOT EXISTS snowflake_registry.lease (
    worker_id bigint PRIMARY KEY CHECK (worker_id >= 0),
    token uuid UNIQUE,
    begins_at bigint NOT NULL DEFAULT 0,
    granted_until bigint NOT NULL DEFAULT 0,
    issued_until bigint NOT NULL DEFAULT 0,
    revision bigint NOT NULL DEFAULT 0,
    renewed_at timestamptz,
    leased_at timestamptz,
    is_used boolean NOT NULL DEFAULT false,
    was_used boolean NOT NULL DEFAULT false,
    rule text NOT NULL DEFAULT 'free' CHECK (rule IN ('free', 'reserved', 'forbidden')),
    comment text,
    server text,
    system_identifier bigint,
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
COMMENT ON COLUMN snowflake_registry.lease.token IS
    'secret of the server that has the worker; a new one with each renewal';
COMMENT ON COLUMN snowflake_registry.lease.begins_at IS
    'where the IDs of this server began, in Unix milliseconds';
COMMENT ON COLUMN snowflake_registry.lease.granted_until IS
    'timestamps of its IDs are below this time, in Unix milliseconds; those of the next server are not';
COMMENT ON COLUMN snowflake_registry.lease.issued_until IS
    'timestamps of its IDs were below this time when it reported last, in Unix milliseconds';
COMMENT ON COLUMN snowflake_registry.lease.is_used IS 'whether this server can have issued IDs';
COMMENT ON COLUMN snowflake_registry.lease.was_used IS 'whether an earlier server with this worker can have issued IDs';
COMMENT ON COLUMN snowflake_registry.lease.conflict IS
    'message for this server: another one has had the same worker for the same time';
COMMENT ON COLUMN snowflake_registry.lease.rule IS
    'free: for any server; reserved: only for a server that is configured with this number; forbidden: for no server';

-- Numbers changes. The sequence can be ahead after a crash, or after the registry was restored. A dump sets it last:
-- then it can go back after servers have asked.
CREATE SEQUENCE IF NOT EXISTS snowflake_registry.revision;
COMMENT ON SEQUENCE snowflake_registry.revision IS 'numbers the changes of leases';

-- A dump has the rows of an extension's tables only if the extension says so.
DO $$
BEGIN
    IF current_setting('snowflake_registry.is_extension')::boolean THEN
        PERFORM pg_extension_config_dump('snowflake_registry.registry', '');
        PERFORM pg_extension_config_dump('snowflake_registry.lease', '');
        PERFORM pg_extension_config_dump('snowflake_registry.revision', '');
    END IF;
END $$;

DO $$
DECLARE
    installed integer;
BEGIN
    SELECT registry_version INTO installed FROM snowflake_registry.registry;
    IF installed > 1 THEN
        RAISE EXCEPTION 'registry has version %, which is newer than this script', installed
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
END $$;

-- For rows of a dump: it replaces deleted ones, or brings leases into a new registry. Functions insert rows without a
-- revision. TRUNCATE needs no trigger: it gives the table another file.
CREATE OR REPLACE FUNCTION snowflake_registry.note_rows() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE snowflake_registry.registry SET storage = '' WHERE storage <> '';
    RETURN NULL;
END $$;
COMMENT ON FUNCTION snowflake_registry.note_rows() IS
    'record that leases were deleted, or come from a dump, so that check_restored() notices';
CREATE OR REPLACE TRIGGER note_deleted AFTER DELETE ON snowflake_registry.lease
    FOR EACH STATEMENT EXECUTE FUNCTION snowflake_registry.note_rows();
CREATE OR REPLACE TRIGGER note_restored AFTER INSERT ON snowflake_registry.lease
    FOR EACH ROW WHEN (new.revision > 0) EXECUTE FUNCTION snowflake_registry.note_rows();

-- A dump that is restored over a new registry brings the row by which check_restored() notices.
CREATE OR REPLACE FUNCTION snowflake_registry.replace_row() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM snowflake_registry.registry;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION snowflake_registry.replace_row() IS 'let the row of a dump replace the one that is there';
CREATE OR REPLACE TRIGGER replace_row BEFORE INSERT ON snowflake_registry.registry
    FOR EACH STATEMENT EXECUTE FUNCTION snowflake_registry.replace_row();

-- Times, names for messages, and whether the registry is where it was written

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

-- Texts, since an expression with the row type would keep a later version from adding a column to the table.
CREATE OR REPLACE FUNCTION snowflake_registry.holder(lease snowflake_registry.lease) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce('server "' || (lease).server || '"',
        'a server with system identifier ' || (lease).system_identifier, 'an unknown server')
        || coalesce(' on host "' || nullif((lease).host, '') || '"', '')
            || coalesce(', address ' || host((lease).address), '')
$$;
COMMENT ON FUNCTION snowflake_registry.holder(snowflake_registry.lease) IS 'the server of a lease, for messages';

CREATE OR REPLACE FUNCTION snowflake_registry.comment_of(lease snowflake_registry.lease) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(format('Its comment is "%s".', nullif((lease).comment, '')), 'It has no comment.')
$$;
COMMENT ON FUNCTION snowflake_registry.comment_of(snowflake_registry.lease) IS 'the comment on a worker, for messages';

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
    'the database, the OID of the table of leases, its file, and the xmin of the row of the registry: neither a dump '
    'nor a copy of the database brings them back';

CREATE OR REPLACE FUNCTION snowflake_registry.is_original() RETURNS boolean
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT (r.system_identifier, r.timeline, r.storage)
        = ((pg_control_system()).system_identifier, snowflake_registry.own_timeline(),
            snowflake_registry.own_storage(r.xmin))
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
    'record where the registry is; to be called after each change of its row, which check_restored() must precede';

CREATE OR REPLACE FUNCTION snowflake_registry.last_revision() RETURNS bigint
    LANGUAGE sql VOLATILE
    RETURN greatest((SELECT max(l.revision) FROM snowflake_registry.lease l),
        (SELECT r.reached_revision FROM snowflake_registry.registry r));
COMMENT ON FUNCTION snowflake_registry.last_revision() IS
    'number of the last change of this registry; a server that has seen a higher one knows a later state of the '
    'registry';

CREATE OR REPLACE FUNCTION snowflake_registry.check_restored(seen_revision bigint, kept_revision bigint)
    RETURNS snowflake_registry.registry
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    here snowflake_registry.registry;
    noted snowflake_registry.registry;
BEGIN
    -- What was committed must not be lost in a crash, whatever the settings of this database or role are.
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    SELECT * INTO here FROM snowflake_registry.registry;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'registry has no rows' USING ERRCODE = 'object_not_in_prerequisite_state',
            DETAIL = 'A restore has made its tables, and has not brought their rows.',
            HINT = 'Restore the rows from the dump. For a new registry, drop this one, and install it again.';
    END IF;
    IF snowflake_registry.is_original()
        AND coalesce(seen_revision, 0) <= greatest(kept_revision, here.reached_revision) THEN
        RETURN here;
    END IF;
    -- A stolen role could hold up a call that waits for a lock.
    SELECT * INTO noted FROM snowflake_registry.registry FOR UPDATE SKIP LOCKED;
    IF snowflake_registry.is_original()
        AND coalesce(seen_revision, 0) <= greatest(kept_revision, noted.reached_revision) THEN
        RETURN noted;
    END IF;
    here.restored_at := snowflake_registry.unix_ms(clock_timestamp());
    here.restored_revision := greatest(snowflake_registry.last_revision(), seen_revision) + 1;
    -- By then, lost leases have ended. A minute more, since the clock may be another machine's.
    here.not_before := greatest(here.not_before, here.restored_at + here.longest_lease_ms + 60000);
    IF noted.registry_version IS NULL THEN
        -- Another transaction is recording the restore.
        RETURN here;
    END IF;
    -- Only under the lock of the row, so that the sequence never goes back.
    here.restored_revision := greatest(here.restored_revision, nextval('snowflake_registry.revision'));
    -- Far enough ahead that it does not go back, whoever takes numbers meanwhile.
    PERFORM setval('snowflake_registry.revision', here.restored_revision + 1000);
    UPDATE snowflake_registry.registry SET restored_at = here.restored_at, restored_revision = here.restored_revision,
        not_before = here.not_before, reached_revision = here.restored_revision;
    PERFORM snowflake_registry.note_origin();
    RAISE LOG 'snowflake_registry was restored or has failed over'
        USING DETAIL = format('No worker is leased to another server before %s.',
            snowflake_registry.display(here.not_before)),
            HINT = 'If no transaction was lost, call snowflake_registry.end_recovery().';
    RETURN here;
END $$;
COMMENT ON FUNCTION snowflake_registry.check_restored(bigint, bigint) IS
    'record a restore or a failover of the registry, after which leases may be missing: the registry is elsewhere, or '
    'a server has a receipt for a later state of a row';

CREATE OR REPLACE FUNCTION snowflake_registry.receipt_for(
    worker bigint, token uuid, granted bigint, revision bigint) RETURNS text
    -- STRICT, since concat_ws() leaves NULL out: then another lease could have the same proof.
    LANGUAGE sql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT encode(sha256(convert_to(secret || encode(sha256(convert_to(concat_ws(' ', secret, worker, token, granted,
        revision), 'UTF8')), 'hex'), 'UTF8')), 'hex') FROM snowflake_registry.registry
$$;
COMMENT ON FUNCTION snowflake_registry.receipt_for(bigint, uuid, bigint, bigint) IS
    'proof that this registry has granted a lease, even if it has lost it in a restore';

DO $$
BEGIN
    IF current_setting('snowflake_registry.is_new')::boolean THEN
        -- pg_restore, and the script of pg_dump, turn row_security off, and bring this row themselves. No server must
        -- get a lease before that.
        IF current_setting('snowflake_registry.is_extension')::boolean
            AND NOT current_setting('row_security')::boolean THEN
            RETURN;
        END IF;
        INSERT INTO snowflake_registry.registry (registry_version, system_identifier, timeline, storage)
            VALUES (1, 0, 0, '');
    ELSE
        PERFORM snowflake_registry.check_restored(NULL, NULL);
        UPDATE snowflake_registry.registry SET registry_version = 1 WHERE registry_version <> 1;
    END IF;
    IF FOUND THEN
        PERFORM snowflake_registry.note_origin();
    END IF;
END $$;

-- For servers
--
-- Each change takes a token of the server, and stores a new one that the server has chosen. So a copy of a server has
-- an old token as soon as its original has renewed its lease. A server repeats a call whose answer was lost with the
-- same new token, and presents that, too, when it asks for a renewal.
--
-- A function locks a row only once it knows that it will change it: else anyone with a server's role could hold others
-- up.

CREATE OR REPLACE FUNCTION snowflake_registry.server_hello(
    held_token uuid, held_until bigint, held_receipt text, worker_id bigint, seen_revision bigint,
    OUT registry_version integer, OUT clock bigint)
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '10s' AS $$
    SELECT registry_version, snowflake_registry.unix_ms(clock_timestamp()) FROM snowflake_registry.check_restored(
        -- A server with a receipt of this registry knows a state of it. A row never goes back.
        CASE WHEN held_receipt = snowflake_registry.receipt_for(server_hello.worker_id, held_token, held_until,
            seen_revision)
            THEN seen_revision END,
        (SELECT l.revision FROM snowflake_registry.lease l WHERE l.worker_id = server_hello.worker_id))
$$;
COMMENT ON FUNCTION snowflake_registry.server_hello(uuid, bigint, text, bigint, bigint) IS
    'to be called first: version of the registry, and what its clock shows, in Unix milliseconds; records a restore, '
    'even if the next call fails';

CREATE OR REPLACE FUNCTION snowflake_registry.read_about(
    about jsonb, OUT lease_ms bigint, OUT clock bigint, OUT clock_offset_ms bigint, OUT issued_until bigint,
    OUT begins_at bigint,
    OUT layout text, OUT server text, OUT system_identifier bigint, OUT host text, OUT port integer)
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT a.lease_ms, a.clock, a.clock_offset_ms, a.issued_until, a.begins_at, left(a.layout, 200),
        left(a.server, 100),
            a.system_identifier, left(a.host, 255), a.port
        INTO lease_ms, clock, clock_offset_ms, issued_until, begins_at, layout, server, system_identifier, host, port
        FROM jsonb_to_record(about) AS a(lease_ms bigint, clock bigint, clock_offset_ms bigint, issued_until bigint,
            begins_at bigint,
            layout text, server text, system_identifier bigint, host text, port integer);
    issued_until := coalesce(issued_until, 0);
    clock_offset_ms := coalesce(clock_offset_ms, 0);
    IF clock IS NULL OR lease_ms IS NULL OR lease_ms NOT BETWEEN 1000 AND 86400000
        -- Up to the year 9999.
        OR least(clock, issued_until) < 0 OR greatest(clock, issued_until, abs(clock_offset_ms)) > 253402300799999
    THEN
        RAISE EXCEPTION 'invalid request' USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;
COMMENT ON FUNCTION snowflake_registry.read_about(jsonb) IS
    'what a server says of itself; clock is the latest of its clock, its IDs and its durable mark';

CREATE OR REPLACE FUNCTION snowflake_registry.grant_for(lease_ms bigint, server_clock bigint, now_ms bigint,
    longest bigint)
    RETURNS bigint
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF server_clock >= now_ms + longest THEN
        RAISE EXCEPTION 'clock or durable mark of the server is too far ahead of the registry''s clock'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                DETAIL = format('It is at %s, and the registry''s clock is at %s. A lease reaches at most %s ahead.',
                    snowflake_registry.display(server_clock), snowflake_registry.display(now_ms),
                    longest * interval '1 ms'),
                HINT = 'Correct the clocks, or call snowflake_registry.set_longest_lease() in the registry.';
    END IF;
    RETURN least(greatest(now_ms, server_clock) + lease_ms, now_ms + longest);
END $$;
COMMENT ON FUNCTION snowflake_registry.grant_for(bigint, bigint, bigint, bigint) IS
    'the end of a lease that is granted now';

CREATE OR REPLACE FUNCTION snowflake_registry.other_layout(of_layout text, now_ms bigint) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('Worker %s, %s, has layout %s.', l.worker_id, snowflake_registry.holder(l), l.layout)
        FROM snowflake_registry.lease l WHERE l.token IS NOT NULL AND l.granted_until > now_ms
            AND l.layout <> of_layout LIMIT 1
$$;
COMMENT ON FUNCTION snowflake_registry.other_layout(text, bigint) IS
    'a server with a lease and another layout, whose IDs can be equal';

CREATE OR REPLACE FUNCTION snowflake_registry.margin(lease_ms bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    RETURN least(60000, lease_ms / 10);
COMMENT ON FUNCTION snowflake_registry.margin(bigint) IS
    'how long before its end a server may claim its own lease again, in milliseconds';

CREATE OR REPLACE FUNCTION snowflake_registry.claim_own(
    held_tokens uuid[], configured bigint, least_worker bigint, greatest_worker bigint, avoided bigint, lease_ms bigint,
    not_before bigint, now_ms bigint, OUT worker bigint, OUT other text)
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_lease snowflake_registry.lease;
BEGIN
    SELECT * INTO found_lease FROM snowflake_registry.lease l WHERE l.token = ANY (held_tokens)
        AND l.worker_id BETWEEN least_worker AND greatest_worker
        AND (l.worker_id = configured OR configured IS NULL AND l.rule = 'free') FOR UPDATE;
    -- A released lease ends within the reservation of its mark. It is claimed no earlier than is_holder() allows.
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

CREATE OR REPLACE FUNCTION snowflake_registry.check_room(first bigint, last bigint) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- Far more than any fleet has: a role that was stolen must not fill the disk.
    most CONSTANT integer := 100000;
    others bigint := (SELECT count(*) FROM snowflake_registry.lease l WHERE l.worker_id NOT BETWEEN first AND last);
BEGIN
    IF others + last - first + 1 > most THEN
        RAISE EXCEPTION 'registry has no room for %', CASE WHEN first = last THEN 'another worker'
                ELSE format('the workers %s to %s', first, last) END USING ERRCODE = 'program_limit_exceeded',
            DETAIL = format('It knows %s other workers, and can have %s.', others, most),
            HINT = 'Name fewer workers, or see in the view snowflake_registry.workers which role has leased them.';
    END IF;
END $$;
COMMENT ON FUNCTION snowflake_registry.check_room(bigint, bigint) IS
    'raise an error if there can be no rows for these workers';

CREATE OR REPLACE FUNCTION snowflake_registry.insert_worker(worker bigint) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM snowflake_registry.check_room(worker, worker);
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
    'insert the row of a worker that has none yet; false if it has one, or another transaction is inserting it: nobody '
    'waits for that';

CREATE OR REPLACE FUNCTION snowflake_registry.claim_configured(
    configured bigint, not_before bigint, now_ms bigint, of_system bigint, of_host text, of_port integer)
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
        -- Another server may have just got it.
        SELECT * INTO STRICT found_lease FROM snowflake_registry.lease l
            WHERE l.worker_id = configured FOR UPDATE;
    END IF;
    IF found_lease.rule = 'forbidden' THEN
        RAISE EXCEPTION 'worker % is forbidden', configured
            USING ERRCODE = 'object_not_in_prerequisite_state',
                DETAIL = snowflake_registry.comment_of(found_lease),
                HINT = format('Configure another worker, or call snowflake_registry.allow_workers(%s) in the registry.',
                    configured);
    ELSIF found_lease.granted_until <= now_ms THEN
        RETURN CASE WHEN not_before <= now_ms THEN configured END;
    ELSIF (found_lease.system_identifier, found_lease.host, found_lease.port) = (of_system, of_host, of_port) THEN
        RAISE EXCEPTION 'worker % is still leased to this server, or to a copy of it', configured
            USING ERRCODE = 'object_not_in_prerequisite_state',
                DETAIL = format('The lease ends at %s. Since it was granted, the machine was rebooted, the state '
                    'directory was changed, '
                    'or the registry''s answer was lost.',
                    snowflake_registry.display(found_lease.granted_until)),
                HINT = format('The server gets the worker then. If there is no copy that issues IDs, call '
                    'snowflake_registry.release_worker(%s) in the registry to end the lease now.', configured);
    END IF;
    RAISE EXCEPTION 'worker % is leased to another server', configured
        USING ERRCODE = 'object_not_in_prerequisite_state',
            DETAIL = format('It is %s. The lease ends at %s.', snowflake_registry.holder(found_lease),
                snowflake_registry.display(found_lease.granted_until)),
            HINT = format('Stop that server, which releases the worker, or configure another worker. If it will never '
                'issue '
                'IDs again, call snowflake_registry.release_worker(%s) in the registry.', configured);
END $$;
COMMENT ON FUNCTION snowflake_registry.claim_configured(bigint, bigint, bigint, bigint, text, integer) IS
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
    -- First, a worker that nobody had before. From the top down: people give servers their numbers from 0 on.
    SELECT count(*) INTO known FROM snowflake_registry.lease l
        WHERE l.worker_id BETWEEN least_worker AND greatest_worker;
    FOR worker IN SELECT n FROM generate_series(greatest(least_worker, greatest_worker - known - 1000),
        greatest_worker) n
        WHERE NOT EXISTS (SELECT FROM snowflake_registry.lease l WHERE l.worker_id = n)
            AND n IS DISTINCT FROM avoided
        ORDER BY n DESC
    LOOP
        IF snowflake_registry.insert_worker(worker) THEN
            RETURN worker;
        END IF;
    END LOOP;
    -- Else the one whose lease ended first.
    SELECT l.worker_id INTO worker FROM snowflake_registry.lease l
        WHERE l.worker_id BETWEEN least_worker AND greatest_worker AND l.rule = 'free'
            AND l.granted_until <= now_ms AND (l.is_used OR l.was_used OR l.worker_id IS DISTINCT FROM avoided)
        ORDER BY l.granted_until, l.worker_id DESC LIMIT 1 FOR UPDATE SKIP LOCKED;
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
                format(' The next lease to end is that of worker %s, %s, at %s unless it is renewed.',
                    next_lease.worker_id,
                    snowflake_registry.holder(next_lease), snowflake_registry.display(next_lease.granted_until)) END),
        HINT = 'See the views workers and status in the schema snowflake_registry of the registry. Choose a layout '
            'with room for more workers'
            || CASE WHEN counted.kept > 0 THEN ', or call snowflake_registry.allow_workers() in the registry.'
                ELSE '.' END;
END $$;
COMMENT ON FUNCTION snowflake_registry.claim_any(bigint, bigint, bigint, bigint) IS
    'a free worker, locked; the avoided one only if it was leased before, so that its IDs begin above the earlier ones';

CREATE OR REPLACE FUNCTION snowflake_registry.revision_after(revision bigint, here snowflake_registry.registry)
    RETURNS bigint
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT greatest(nextval('snowflake_registry.revision'), revision + 1, here.restored_revision)
$$;
COMMENT ON FUNCTION snowflake_registry.revision_after(bigint, snowflake_registry.registry) IS
    'number of a change of a lease that has this one: higher, and no lower than that of the last restore';

CREATE OR REPLACE FUNCTION snowflake_registry.server_claim(
    held_tokens uuid[], new_token uuid, configured_worker_id bigint, least_worker_id bigint, greatest_worker_id bigint,
    avoided_worker_id bigint, about jsonb,
    OUT worker_id bigint, OUT begins_at bigint, OUT is_first boolean, OUT granted_until bigint, OUT receipt text,
    OUT revision bigint, OUT holder_note text, OUT layout_note text)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '10s' AS $$
DECLARE
    here snowflake_registry.registry := snowflake_registry.check_restored(NULL, NULL);
    now_ms bigint := snowflake_registry.unix_ms(clock_timestamp());
    this record := snowflake_registry.read_about(about);
    found_lease snowflake_registry.lease;
BEGIN
    IF new_token IS NULL OR least_worker_id IS NULL OR greatest_worker_id IS NULL
        OR greatest(configured_worker_id, least_worker_id, greatest_worker_id) > 2147483647
        OR least(configured_worker_id, least_worker_id, greatest_worker_id) < 0
    THEN
        RAISE EXCEPTION 'invalid request' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    layout_note := snowflake_registry.other_layout(this.layout, now_ms);

    -- A claim whose answer was lost.
    SELECT * INTO found_lease FROM snowflake_registry.lease l WHERE l.token = new_token
        AND l.worker_id BETWEEN least_worker_id AND greatest_worker_id;
    IF FOUND THEN
        worker_id := found_lease.worker_id;
        begins_at := found_lease.begins_at;
        is_first := NOT found_lease.was_used;
        granted_until := found_lease.granted_until;
        revision := found_lease.revision;
        receipt := snowflake_registry.receipt_for(worker_id, new_token, granted_until, revision);
        RETURN;
    END IF;

    SELECT c.worker, c.other INTO worker_id, holder_note FROM snowflake_registry.claim_own(
        held_tokens, configured_worker_id, least_worker_id, greatest_worker_id, avoided_worker_id,
        least(this.lease_ms, here.longest_lease_ms), here.not_before, now_ms) c;
    IF worker_id IS NULL AND configured_worker_id IS NOT NULL THEN
        worker_id := snowflake_registry.claim_configured(
            configured_worker_id, here.not_before, now_ms, this.system_identifier, this.host, this.port);
    ELSIF worker_id IS NULL AND here.not_before <= now_ms THEN
        worker_id := snowflake_registry.claim_any(least_worker_id, greatest_worker_id, avoided_worker_id, now_ms);
    END IF;
    IF worker_id IS NULL THEN
        RAISE EXCEPTION 'registry was restored or has failed over' USING ERRCODE = 'object_not_in_prerequisite_state',
            DETAIL = format('Leases may have been lost. The registry leases no worker to another server before %s.',
                snowflake_registry.display(here.not_before)),
            HINT = 'If the registry has lost no transaction, call snowflake_registry.end_recovery() in the registry.';
    END IF;

    -- The row is this transaction's.
    SELECT greatest(l.granted_until, here.not_before), NOT (l.is_used OR l.was_used),
        snowflake_registry.revision_after(l.revision, here)
        INTO STRICT begins_at, is_first, revision FROM snowflake_registry.lease l
            WHERE l.worker_id = server_claim.worker_id;
    granted_until := greatest(begins_at,
        snowflake_registry.grant_for(this.lease_ms, this.clock, now_ms, here.longest_lease_ms));
    UPDATE snowflake_registry.lease l SET token = new_token, begins_at = server_claim.begins_at,
            granted_until = server_claim.granted_until, issued_until = 0, revision = server_claim.revision,
            renewed_at = clock_timestamp(), leased_at = clock_timestamp(), was_used = l.is_used OR l.was_used,
            is_used = true, conflict = NULL,
            server = this.server, system_identifier = this.system_identifier, host = this.host, port = this.port,
            address = inet_client_addr(), role = session_user, layout = this.layout,
            clock_offset_ms = this.clock_offset_ms
        WHERE l.worker_id = server_claim.worker_id;
    receipt := snowflake_registry.receipt_for(worker_id, new_token, granted_until, revision);
END $$;
COMMENT ON FUNCTION snowflake_registry.server_claim(uuid[], uuid, bigint, bigint, bigint, bigint, jsonb) IS
    'lease a free worker: the one that the server had, the one that it is configured with, or any; its IDs begin at '
    'begins_at, above all IDs that another server can have issued';

CREATE OR REPLACE FUNCTION snowflake_registry.is_holder(
    row_of snowflake_registry.lease, here snowflake_registry.registry, held_tokens uuid[], held_until bigint,
    held_receipt text,
    worker bigint, seen_revision bigint, this record) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- Written since the last restore, if there was one.
    is_current boolean := coalesce(row_of.revision >= here.restored_revision AND row_of.revision > 0, false);
    has_receipt boolean := held_receipt
        = snowflake_registry.receipt_for(worker, held_tokens[1], held_until, seen_revision);
BEGIN
    -- Other holders, and later changes of a lease, may have been lost. Only the last holder of a worker has a grant
    -- beyond the time of the restore, also by its own clock: the registry may now have another clock. A clock that was
    -- ahead at the restore has been corrected.
    IF here.restored_at > 0 AND (held_until > least(here.restored_at, snowflake_registry.unix_ms(clock_timestamp()))
        + snowflake_registry.margin(least(this.lease_ms, here.longest_lease_ms))
            + greatest(0, this.clock_offset_ms)) IS NOT TRUE
        -- Or the registry has answered the server since. With the token alone, the row could be of an earlier request
        -- that arrived late.
        AND (is_current AND has_receipt AND seen_revision >= here.restored_revision) IS NOT TRUE
    THEN
        RETURN false;
    END IF;
    -- The first condition: a claim that arrives late puts its token into the row again, after other holders.
    IF is_current THEN
        RETURN held_until >= row_of.begins_at AND row_of.token = ANY (held_tokens);
    END IF;
    -- The row has its token, and grants that much. After a planned stop whose release was lost, there is no receipt.
    IF row_of.token = ANY (held_tokens) AND held_until BETWEEN row_of.begins_at AND row_of.granted_until THEN
        RETURN true;
    END IF;
    -- The receipt proves the server's grant. The row has its token, or an earlier state. It does not say that another
    -- server has the worker: that server can have got it before the restore was noticed.
    RETURN has_receipt AND (
        coalesce(row_of.revision, 0) <= seen_revision
            AND (row_of.granted_until > this.begins_at
                AND (row_of.system_identifier, row_of.host, row_of.port) IS DISTINCT FROM (this.system_identifier,
                    this.host, this.port)
            ) IS NOT TRUE
        OR held_until >= row_of.begins_at AND row_of.token = ANY (held_tokens));
END $$;
COMMENT ON FUNCTION snowflake_registry.is_holder(snowflake_registry.lease, snowflake_registry.registry, uuid[], bigint,
    text, bigint,
    bigint, record) IS 'whether a server has the worker of this row';

CREATE OR REPLACE FUNCTION snowflake_registry.note_conflict(
    row_of snowflake_registry.lease, this record, held_until bigint) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    asking snowflake_registry.lease;
    seen text;
BEGIN
    asking.server := this.server;
    asking.system_identifier := this.system_identifier;
    asking.host := this.host;
    asking.address := inet_client_addr();
    seen := format('Worker %s was leased to %s for IDs up to %s, and to %s since %s.', row_of.worker_id,
        snowflake_registry.holder(asking), snowflake_registry.display(held_until),
        snowflake_registry.holder(row_of), snowflake_registry.display(snowflake_registry.unix_ms(row_of.leased_at)));
    RAISE LOG 'a worker was leased to two servers for the same time' USING DETAIL = seen,
        HINT = 'Look for IDs that both servers have issued. Unless the lease was ended by hand, the registry has lost '
            'a transaction.';
    -- Unless the other server is renewing its lease: nobody waits for a lock.
    UPDATE snowflake_registry.lease l SET conflict = seen
        WHERE l.worker_id IN (SELECT o.worker_id FROM snowflake_registry.lease o
            WHERE o.worker_id = row_of.worker_id AND o.token = row_of.token
            FOR UPDATE SKIP LOCKED);
END $$;
COMMENT ON FUNCTION snowflake_registry.note_conflict(snowflake_registry.lease, record, bigint) IS
    'log that two servers have had a worker for the same time, and tell the other one when it renews';

CREATE OR REPLACE FUNCTION snowflake_registry.server_renew(
    held_tokens uuid[], new_token uuid, held_until bigint, held_receipt text, worker_id bigint,
    seen_revision bigint, about jsonb,
    OUT granted_until bigint, OUT receipt text, OUT revision bigint, OUT refusal text, OUT hint text,
    OUT is_final boolean,
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
                WHERE l.worker_id = server_renew.worker_id;
        ELSE
            SELECT * INTO found_lease FROM snowflake_registry.lease l
                WHERE l.worker_id = server_renew.worker_id FOR UPDATE;
        END IF;
        IF snowflake_registry.is_holder(found_lease, here, held_tokens, held_until, held_receipt, worker_id,
            seen_revision, this) IS NOT TRUE
        THEN
            is_final := false;
            must_stop := false;
            IF found_lease.worker_id IS NULL OR found_lease.token IS NULL
                AND NOT (found_lease.is_used OR found_lease.was_used) THEN
                refusal := 'The registry does not know the lease.';
            ELSIF found_lease.token IS NULL THEN
                refusal := 'It was released by hand.';
                is_final := true;
            ELSIF found_lease.token = ANY (held_tokens) THEN
                refusal := 'It had ended when the registry was restored or failed over, or the registry has not '
                    'answered its release since.';
                hint := 'Restart this server, so that it leases a worker again.';
                IF here.not_before > snowflake_registry.unix_ms(clock_timestamp()) THEN
                    hint := format('If the registry has lost no transaction, call snowflake_registry.end_recovery() in '
                        'it. '
                        'Otherwise, restart this server after %s.', snowflake_registry.display(here.not_before));
                END IF;
            ELSE
                refusal := format('The last server to lease it was %s.', snowflake_registry.holder(found_lease));
                -- A failover could lose that. A registry other than the server's knows nothing about its lease.
                is_proven := held_receipt
                    = snowflake_registry.receipt_for(worker_id, held_tokens[1], held_until, seen_revision);
                is_final := found_lease.revision >= here.restored_revision AND is_proven;
                -- The worker was leased to another server before this lease ended: the registry has lost a transaction,
                -- which nothing else has shown, or somebody ended the lease by hand while the server ran, or this is a
                -- copy.
                must_stop := is_proven AND found_lease.begins_at < held_until;
                IF must_stop THEN
                    PERFORM snowflake_registry.note_conflict(found_lease, this, held_until);
                    -- Other leases may be lost, too. Unless this is a copy.
                    IF found_lease.system_identifier IS DISTINCT FROM this.system_identifier THEN
                        PERFORM snowflake_registry.check_restored(snowflake_registry.last_revision() + 1, 0);
                    END IF;
                END IF;
            END IF;
            RETURN;
        ELSIF found_lease.rule = 'forbidden' THEN
            is_final := false;
            refusal := 'It is forbidden. ' || snowflake_registry.comment_of(found_lease);
            hint := format('Call snowflake_registry.allow_workers(%s) in the registry to let the server continue.',
                worker_id);
            RETURN;
        END IF;
    END LOOP;
    now_ms := snowflake_registry.unix_ms(clock_timestamp());
    granted_until := greatest(found_lease.granted_until,
        snowflake_registry.grant_for(this.lease_ms, this.clock, now_ms, here.longest_lease_ms));
    IF found_lease.revision IS NULL OR found_lease.revision < here.restored_revision THEN
        granted_until := greatest(granted_until, held_until);
        IF found_lease.worker_id IS NULL AND NOT snowflake_registry.insert_worker(worker_id) THEN
            RAISE EXCEPTION 'another server has just got worker %', worker_id USING ERRCODE = 'serialization_failure';
        END IF;
    END IF;
    revision := snowflake_registry.revision_after(found_lease.revision, here);
    UPDATE snowflake_registry.lease l SET token = new_token, granted_until = server_renew.granted_until,
            issued_until = this.issued_until, leased_at = coalesce(l.leased_at, clock_timestamp()), is_used = true,
            revision = server_renew.revision, renewed_at = clock_timestamp(),
            server = this.server, system_identifier = this.system_identifier,
            host = this.host, port = this.port, address = inet_client_addr(), role = session_user, layout = this.layout,
            clock_offset_ms = this.clock_offset_ms, conflict = NULL
        WHERE l.worker_id = server_renew.worker_id;
    conflict_note := found_lease.conflict;
    receipt := snowflake_registry.receipt_for(worker_id, new_token, granted_until, revision);
    layout_note := snowflake_registry.other_layout(this.layout, now_ms);
END $$;
COMMENT ON FUNCTION snowflake_registry.server_renew(uuid[], uuid, bigint, text, bigint, bigint, jsonb) IS
    'extend the lease of a server that continues at its own mark; refusal says why if it no longer has the worker';

CREATE OR REPLACE FUNCTION snowflake_registry.server_release(
    held_tokens uuid[], new_token uuid, held_until bigint, held_receipt text, worker_id bigint,
    seen_revision bigint, lowered_until bigint, about jsonb,
    OUT granted_until bigint, OUT receipt text, OUT revision bigint)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '10s' AS $$
DECLARE
    here snowflake_registry.registry := snowflake_registry.check_restored(NULL, NULL);
    this record := snowflake_registry.read_about(about);
    found_lease snowflake_registry.lease;
    ends bigint := greatest(lowered_until, this.issued_until);
BEGIN
    IF new_token IS NULL OR lowered_until IS NULL THEN
        RAISE EXCEPTION 'invalid request' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT * INTO found_lease FROM snowflake_registry.lease l WHERE l.worker_id = server_release.worker_id;
    -- As in a renewal, since the new row counts as written after a restore.
    IF snowflake_registry.is_holder(found_lease, here, held_tokens, held_until, held_receipt, worker_id, seen_revision,
        this) IS NOT TRUE
    THEN
        RETURN;
    END IF;
    IF found_lease.worker_id IS NULL THEN
        PERFORM snowflake_registry.insert_worker(worker_id);
    END IF;
    SELECT * INTO found_lease FROM snowflake_registry.lease l
        WHERE l.worker_id = server_release.worker_id FOR UPDATE;
    IF snowflake_registry.is_holder(found_lease, here, held_tokens, held_until, held_receipt, worker_id, seen_revision,
        this) IS NOT TRUE
    THEN
        RETURN;
    END IF;
    ends := least(greatest(ends, found_lease.begins_at), held_until);
    IF (found_lease.token = ANY (held_tokens)) IS NOT TRUE THEN
        -- The row is of an earlier lease, or of an earlier time of this one.
        ends := greatest(ends, found_lease.granted_until);
    ELSIF found_lease.revision >= here.restored_revision THEN
        ends := least(ends, found_lease.granted_until);
    END IF;
    revision := snowflake_registry.revision_after(found_lease.revision, here);
    UPDATE snowflake_registry.lease l
        SET token = new_token, granted_until = ends, issued_until = this.issued_until,
            leased_at = coalesce(l.leased_at, clock_timestamp()),
            -- A server that has issued nothing does not count.
            is_used = greatest(lowered_until, this.issued_until) > l.begins_at,
            revision = server_release.revision, renewed_at = clock_timestamp(),
            server = this.server, system_identifier = this.system_identifier, host = this.host, port = this.port,
            address = inet_client_addr(), role = session_user, layout = this.layout,
            clock_offset_ms = this.clock_offset_ms
        WHERE l.worker_id = server_release.worker_id
        RETURNING l.granted_until INTO STRICT granted_until;
    receipt := snowflake_registry.receipt_for(worker_id, new_token, granted_until, revision);
END $$;
COMMENT ON FUNCTION snowflake_registry.server_release(uuid[], uuid, bigint, text, bigint, bigint, bigint, jsonb) IS
    'end a lease early: the server no longer issues IDs at or above this time; NULL if it does not have the worker';

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

-- Privileges

-- Revokes what default privileges have granted to others. Later grants are kept.
DO $$
DECLARE
    other regrole;
    objects text;
BEGIN
    FOR other, objects IN
        SELECT DISTINCT a.grantee, o.objects FROM (
            SELECT n.nspacl, 'SCHEMA' FROM pg_namespace n WHERE n.nspname = 'snowflake_registry'
            UNION SELECT c.relacl, CASE c.relkind WHEN 'S' THEN 'ALL SEQUENCES IN SCHEMA'
                ELSE 'ALL TABLES IN SCHEMA' END
                FROM pg_class c WHERE c.relnamespace = 'snowflake_registry'::regnamespace
            UNION SELECT p.proacl, 'ALL FUNCTIONS IN SCHEMA' FROM pg_proc p
                WHERE p.pronamespace = 'snowflake_registry'::regnamespace
        ) AS o (acl, objects), aclexplode(o.acl) AS a
        WHERE a.grantee NOT IN (0, quote_ident(current_user)::regrole)
            AND current_setting('snowflake_registry.is_new')::boolean
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
GRANT EXECUTE ON FUNCTION snowflake_registry.version() TO snowflake_registry_server, snowflake_registry_admin,
    pg_monitor;
GRANT EXECUTE ON FUNCTION
    snowflake_registry.server_hello(uuid, bigint, text, bigint, bigint),
    snowflake_registry.server_claim(uuid[], uuid, bigint, bigint, bigint, bigint, jsonb),
    snowflake_registry.server_renew(uuid[], uuid, bigint, text, bigint, bigint, jsonb),
    snowflake_registry.server_release(uuid[], uuid, bigint, text, bigint, bigint, bigint, jsonb)
    TO snowflake_registry_server;
GRANT EXECUTE ON FUNCTION
    snowflake_registry.reserve_workers(bigint, bigint, text),
    snowflake_registry.forbid_workers(bigint, bigint, text),
    snowflake_registry.allow_workers(bigint, bigint),
    snowflake_registry.release_worker(bigint, timestamptz),
    snowflake_registry.end_recovery(),
    snowflake_registry.set_longest_lease(interval)
    TO snowflake_registry_admin;
