-- Administration: for the owner of the database.

CREATE OR REPLACE FUNCTION ids.snowflake_set_worker_id(worker_id integer, datacenter_id integer DEFAULT 0) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f ids.snowflake_fields := ids.snowflake_own_fields();
BEGIN
    IF worker_id IS NULL OR datacenter_id IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed',
            MESSAGE = 'worker_id and datacenter_id must not be NULL';
    END IF;
    PERFORM ids.snowflake_in_field('worker_id', worker_id::bigint, f.worker_bits, f.worker_shift, f),
        ids.snowflake_in_field('datacenter_id', datacenter_id::bigint, f.datacenter_bits, f.datacenter_shift, f);
    -- By log_cnt, dumps are noticed. What is set here is set again below.
    PERFORM setval('ids.snowflake_began'::regclass, 0, false);
    PERFORM nextval('ids.snowflake_began'::regclass);
    -- mutant: hosted-keeps-log-count
    IF (SELECT log_cnt = 0 FROM ids.snowflake_began) THEN
        RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
            MESSAGE = 'the sequences of this server do not keep log_cnt',
            DETAIL = 'It is 0 after nextval(), as it is after a dump was restored: IDs could repeat unnoticed.',
            HINT = 'Use UUIDs here, or another server: the sequences of PostgreSQL itself keep it.';
    END IF;
    PERFORM ids.snowflake_register(concat_ws(' ', pg_current_xact_id(), ids.snowflake_directory_made()));
    DELETE FROM ids.snowflake_database;
    INSERT INTO ids.snowflake_database (system_identifier, database, relation, inserted_by, catalog_xmin, version)
        SELECT system_identifier, (SELECT oid FROM pg_database WHERE datname = current_database()),
            'ids.snowflake_database'::regclass, pg_current_xact_id(),
            ids.snowflake_catalog_xmin(), ids.snowflake_script_version() FROM pg_control_system();
    EXECUTE format('CREATE OR REPLACE FUNCTION ids.snowflake_worker_id() RETURNS integer LANGUAGE sql STABLE PARALLEL '
        'SAFE RETURN %s', worker_id);
    EXECUTE format('CREATE OR REPLACE FUNCTION ids.snowflake_datacenter_id() RETURNS integer LANGUAGE sql STABLE '
        'PARALLEL SAFE RETURN %s', datacenter_id);
    -- What a dump may have brought of another database's transactions. Not while a reader notes its own.
    LOCK TABLE ids.snowflake_horizon_lock IN SHARE UPDATE EXCLUSIVE MODE;
    PERFORM setval('ids.snowflake_settled'::regclass, 0, false), setval('ids.snowflake_pending'::regclass, 0, false),
        setval('ids.snowflake_pending_until'::regclass, 0, false);
    -- Another database may have issued IDs of this worker up to now, or others may have set sequences: the next session
    -- continues as after a start.
    -- mutant: hosted-worker-begins
    PERFORM setval('ids.snowflake_began'::regclass, 0, false);
END
$$;
COMMENT ON FUNCTION ids.snowflake_set_worker_id(integer, integer) IS
    'for the owner: sets the worker ID of this database, which no other database and no other server may have';

CREATE OR REPLACE FUNCTION ids.snowflake_set_layout(layout text) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f ids.snowflake_fields := ids.snowflake_fields(layout);
BEGIN
    -- Against calls for IDs, until the end of the transaction.
    LOCK TABLE ids.snowflake_lock IN SHARE UPDATE EXCLUSIVE MODE;
    IF ids.snowflake_unix_ms() NOT BETWEEN f.epoch AND f.issues_until THEN
        PERFORM ids.snowflake_refuse_time(clock_timestamp(), f);
    ELSIF f.least_id < 0 OR NOT f.sorts_by_time THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'IDs of this layout can be decoded but not issued',
            DETAIL = format('"%s" %s.', f.text,
                CASE WHEN f.sorts_by_time THEN 'has 64 bits, and an ID that is issued has at most 63'
                ELSE 'does not have the timestamp as its highest field' END),
            HINT = 'Choose another layout.';
    ELSIF f.text <> (ids.snowflake_own_fields()).text AND ids.snowflake_last() IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'this database has issued IDs of another layout',
            DETAIL = format('Its layout is %s.', (ids.snowflake_own_fields()).text),
            HINT = 'Keep it: IDs of the new layout could equal old ones.';
    ELSIF ids.snowflake_worker_id() NOT BETWEEN 0 AND ~(-1::bigint << f.worker_bits)
        OR ids.snowflake_datacenter_id() NOT BETWEEN 0 AND ~(-1::bigint << f.datacenter_bits) THEN
        RAISE EXCEPTION USING ERRCODE = 'numeric_value_out_of_range',
            MESSAGE = 'worker_id or datacenter_id does not fit the layout',
            DETAIL = format('They are %s and %s.', ids.snowflake_worker_id(), ids.snowflake_datacenter_id()),
            HINT = 'Call snowflake_set_worker_id() first.';
    END IF;
    EXECUTE format('CREATE OR REPLACE FUNCTION ids.snowflake_layout() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE '
        'RETURN %L::text', layout);
END
$$;
COMMENT ON FUNCTION ids.snowflake_set_layout(text) IS
    'for the owner: sets the layout of this database, before its first ID';

CREATE OR REPLACE FUNCTION ids.snowflake_advance(past bigint, force boolean DEFAULT false) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- As by default in the extension, where it is a parameter.
    max_jump_ms CONSTANT bigint := 3600000;
    f ids.snowflake_fields := ids.snowflake_own_fields();
    now_ms bigint := ids.snowflake_unix_ms();
    at_ms bigint := f.epoch + f.tick_ms * (past >> f.timestamp_shift);
BEGIN
    IF past < 0 THEN
        -- Every ID is greater.
        RETURN;
    ELSIF past > f.greatest_id OR past >> f.timestamp_shift >= f.last_tick THEN
        RAISE EXCEPTION USING ERRCODE = 'numeric_value_out_of_range', MESSAGE = 'no ID of the layout is greater',
            DETAIL = format('The value is %s, and the layout is %s.', past, f.text);
    ELSIF at_ms > now_ms + max_jump_ms AND NOT force THEN
        RAISE EXCEPTION USING ERRCODE = 'numeric_value_out_of_range', MESSAGE = 'the ID is too far ahead of the clock',
            DETAIL = format('Its timestamp is %s, and the clock shows %s.', ids.snowflake_display_time(at_ms),
                ids.snowflake_display_time(now_ms)),
            HINT = 'If IDs may stop until the clock reaches it, call snowflake_advance(past, force => true).';
    END IF;
    PERFORM ids.snowflake_raise(NULL, past, NULL);
END
$$;
COMMENT ON FUNCTION ids.snowflake_advance(bigint, boolean) IS 'for the owner: makes all new IDs greater than past';
