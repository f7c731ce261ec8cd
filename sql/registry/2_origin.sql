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
    -- mutant: registry-database
    SELECT concat_ws(' ', (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()),
        'snowflake_registry.lease'::regclass::oid, pg_relation_filenode('snowflake_registry.lease'), written)
$$;
COMMENT ON FUNCTION snowflake_registry.own_storage(xid) IS
    'the database, the OID of the table of leases, its file, and the xmin of the row of the registry: neither a dump '
    'nor a copy of the database brings them back';

CREATE OR REPLACE FUNCTION snowflake_registry.is_original() RETURNS boolean
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT (r.system_identifier, r.timeline, r.storage)
        -- mutant: registry-storage
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
    -- mutant: registry-put-back
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
        -- mutant: registry-row-restored
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
