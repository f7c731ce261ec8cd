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
    -- mutant: lease-length
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
    -- mutant: registry-room
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
    -- mutant: claim-holds-up
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
    -- mutant: claimed-from-top
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
    -- mutant: lease-ended
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
    -- mutant: revision-back
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
        -- mutant: claim-own-end
        held_tokens, configured_worker_id, least_worker_id, greatest_worker_id, avoided_worker_id,
        least(this.lease_ms, here.longest_lease_ms), here.not_before, now_ms) c;
    IF worker_id IS NULL AND configured_worker_id IS NOT NULL THEN
        worker_id := snowflake_registry.claim_configured(
            configured_worker_id, here.not_before, now_ms, this.system_identifier, this.host, this.port);
    -- mutant: restored-new-servers
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
    -- mutant: lease-begins-after
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
