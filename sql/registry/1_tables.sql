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
    -- mutant: leases-deleted
    UPDATE snowflake_registry.registry SET storage = '' WHERE storage <> '';
    RETURN NULL;
END $$;
COMMENT ON FUNCTION snowflake_registry.note_rows() IS
    'record that leases were deleted, or come from a dump, so that check_restored() notices';
CREATE OR REPLACE TRIGGER note_deleted AFTER DELETE ON snowflake_registry.lease
    FOR EACH STATEMENT EXECUTE FUNCTION snowflake_registry.note_rows();
-- mutant: leases-restored
CREATE OR REPLACE TRIGGER note_restored AFTER INSERT ON snowflake_registry.lease
    FOR EACH ROW WHEN (new.revision > 0) EXECUTE FUNCTION snowflake_registry.note_rows();

-- A dump that is restored over a new registry brings the row by which check_restored() notices.
CREATE OR REPLACE FUNCTION snowflake_registry.replace_row() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- mutant: registry-row-replaced
    DELETE FROM snowflake_registry.registry;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION snowflake_registry.replace_row() IS 'let the row of a dump replace the one that is there';
CREATE OR REPLACE TRIGGER replace_row BEFORE INSERT ON snowflake_registry.registry
    FOR EACH STATEMENT EXECUTE FUNCTION snowflake_registry.replace_row();
