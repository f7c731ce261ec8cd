-- Connections to servers

-- Functions of dblink, found once, by their OIDs: dblink can be in any schema, and others may create in it.
DO $$
DECLARE
    home text;
    f text[];
BEGIN
    SELECT pg_catalog.quote_ident(n.nspname) INTO home FROM pg_catalog.pg_extension e
        JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'dblink'::name;
    IF home IS NULL THEN
        RAISE EXCEPTION 'extension "dblink" is not installed' USING ERRCODE = 'undefined_object',
            HINT = 'Run CREATE EXTENSION dblink.';
    END IF;
    FOREACH f SLICE 1 IN ARRAY ARRAY[
        ['connect(connection text, server text) RETURNS text', 'SELECT %s.dblink_connect(connection, server)'],
        ['disconnect(connection text) RETURNS text', 'SELECT %s.dblink_disconnect(connection)'],
        ['connections() RETURNS text[]', 'SELECT %s.dblink_get_connections()'],
        ['send(connection text, query text) RETURNS integer', 'SELECT %s.dblink_send_query(connection, query)'],
        ['cancel(connection text) RETURNS text', 'SELECT %s.dblink_cancel_query(connection)'],
        ['is_busy(connection text) RETURNS integer', 'SELECT %s.dblink_is_busy(connection)'],
        ['answers(connection text) RETURNS SETOF text[]',
            'SELECT r.f FROM %s.dblink_get_result(connection) AS r (f text[])'],
        ['rows_of(connection text, OUT id bigint, OUT data text) RETURNS SETOF record',
            'SELECT r.id, r.data FROM %s.dblink_get_result(connection) AS r (id bigint, data text)']]
    LOOP
        EXECUTE pg_catalog.format('CREATE FUNCTION snowflake_feed.%s LANGUAGE sql VOLATILE PARALLEL UNSAFE BEGIN '
            'ATOMIC '
            || f[2] || '; END', f[1], home);
    END LOOP;
END $$;

-- One for each role, which has its own user mapping.
CREATE FUNCTION snowflake_feed.connection(server name) RETURNS text
    LANGUAGE sql STABLE STRICT SET search_path = pg_catalog, pg_temp
    RETURN (SELECT format('snowflake_feed %s %s', current_user::regrole::oid, oid) FROM pg_foreign_server
        WHERE srvname = server);
COMMENT ON FUNCTION snowflake_feed.connection(name) IS 'not to be called: the name of the connection to a server';

CREATE FUNCTION snowflake_feed.close(server name) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    connection text := snowflake_feed.connection(server);
BEGIN
    IF connection = ANY (snowflake_feed.connections()) THEN
        PERFORM snowflake_feed.cancel(connection);
        PERFORM snowflake_feed.disconnect(connection);
    END IF;
END $$;
COMMENT ON FUNCTION snowflake_feed.close(name) IS 'not to be called: ends what a server does, and the connection to it';

-- The wait can be interrupted, as dblink's own cannot.
CREATE FUNCTION snowflake_feed.await(connection text, until timestamptz) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    pause double precision := 0.0002;
BEGIN
    WHILE snowflake_feed.is_busy(connection) = 1 LOOP
        IF clock_timestamp() > until THEN
            RAISE EXCEPTION 'server has not answered in time' USING ERRCODE = 'query_canceled';
        END IF;
        PERFORM pg_sleep(pause);
        pause := least(pause * 1.5, 0.01);
    END LOOP;
END $$;
COMMENT ON FUNCTION snowflake_feed.await(text, timestamptz) IS 'not to be called: waits for an answer';

-- The one row of an answer.
CREATE FUNCTION snowflake_feed.ask(connection text, query text) RETURNS text[]
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answer text[];
BEGIN
    PERFORM snowflake_feed.send(connection, query);
    PERFORM snowflake_feed.await(connection, clock_timestamp() + interval '10 s');
    SELECT a INTO answer FROM snowflake_feed.answers(connection) a;
    PERFORM snowflake_feed.await(connection, clock_timestamp() + interval '10 s');
    PERFORM FROM snowflake_feed.answers(connection);
    RETURN answer;
END $$;
COMMENT ON FUNCTION snowflake_feed.ask(text, text) IS 'not to be called: what a server answers';

CREATE FUNCTION snowflake_feed.open(INOUT member snowflake_feed.member)
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    connection text := snowflake_feed.connection(member.server);
    answer text[];
BEGIN
    IF connection IS NULL THEN
        RAISE EXCEPTION 'server "%" does not exist', member.server USING ERRCODE = 'undefined_object';
    END IF;
    PERFORM snowflake_feed.connect(connection, member.server::text);
    -- Values are read by the types of this database: in forms that no setting changes, with all names qualified.
    answer := snowflake_feed.ask(connection, $q$SELECT ARRAY[n.nspname::text,
            pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false),
            pg_catalog.set_config('datestyle', 'ISO, YMD', false),
            pg_catalog.set_config('intervalstyle', 'postgres', false),
            pg_catalog.set_config('extra_float_digits', '3', false),
            pg_catalog.set_config('bytea_output', 'hex', false),
            pg_catalog.set_config('default_transaction_isolation', 'read committed', false),
            pg_catalog.set_config('statement_timeout', '10s', false)]
        FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
            WHERE e.extname = 'snowflake_pg'$q$);
    IF answer IS NULL THEN
        RAISE EXCEPTION 'server "%" has no extension snowflake_pg', member.server USING ERRCODE = 'undefined_object',
            HINT = 'Run CREATE EXTENSION snowflake_pg in that database.';
    END IF;
    member.functions := answer[1];
    answer := snowflake_feed.ask(connection, format(
        'SELECT ARRAY[i.system_identifier::text, i.layout, i.worker_id::text, i.datacenter_id::text] FROM '
        '%I.snowflake_identity() i', member.functions));
    IF answer[1]::bigint <> member.system_identifier THEN
        RAISE EXCEPTION 'server "%" is another database cluster now', member.server
            USING ERRCODE = 'object_not_in_prerequisite_state',
            DETAIL = format('Its system identifier is %s, and was %s.', answer[1], member.system_identifier),
            HINT = 'Use drop_server() and add_server() if that is right.';
    END IF;
    IF answer[2] <> member.layout THEN
        RAISE EXCEPTION 'server "%" has another layout now', member.server
            USING ERRCODE = 'object_not_in_prerequisite_state',
            DETAIL = format('Its layout is "%s", and was "%s".', answer[2], member.layout);
    END IF;
    member.system_identifier := answer[1]::bigint;
    member.layout := answer[2];
    -- With that of the data center, which is 0 in a layout without one.
    member.worker := concat_ws('/', nullif(answer[4], '0'), answer[3]);
END $$;
COMMENT ON FUNCTION snowflake_feed.open(snowflake_feed.member) IS
    'not to be called: connects to a server, and compares who it is';
