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
    -- mutant: answered-since
    -- mutant: late-request
    -- mutant: restored-ended
    -- mutant: registry-clock
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
        -- mutant: renewal-token
        RETURN held_until >= row_of.begins_at AND row_of.token = ANY (held_tokens);
    END IF;
    -- The row has its token, and grants that much. After a planned stop whose release was lost, there is no receipt.
    -- mutant: unheard-stop
    IF row_of.token = ANY (held_tokens) AND held_until BETWEEN row_of.begins_at AND row_of.granted_until THEN
        RETURN true;
    END IF;
    -- The receipt proves the server's grant. The row has its token, or an earlier state. It does not say that another
    -- server has the worker: that server can have got it before the restore was noticed.
    -- mutant: receipt-needed
    RETURN has_receipt AND (
        coalesce(row_of.revision, 0) <= seen_revision
            -- mutant: receipt-other-holder
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
        -- mutant: token-locks
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
                    -- mutant: conflict-elsewhere
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
            -- mutant: release-used
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
