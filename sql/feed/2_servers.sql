-- Connections to servers

-- Functions of dblink, found once, by their OIDs: dblink can be in any schema, and others may create there.
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
        ['connect(connection text, server text) RETURNS text', '%s.dblink_connect(connection, server)',
            'opens a connection to a foreign server'],
        ['disconnect(connection text) RETURNS text', '%s.dblink_disconnect(connection)', 'closes a connection'],
        ['connections() RETURNS text[]', '%s.dblink_get_connections()', 'the open connections'],
        ['send(connection text, query text) RETURNS integer', '%s.dblink_send_query(connection, query)',
            'sends a query; 1 if it was sent'],
        ['is_busy(connection text) RETURNS integer', '%s.dblink_is_busy(connection)', '1 if a result has yet to come'],
        ['answers(connection text) RETURNS SETOF text',
            'r.answer FROM %s.dblink_get_result(connection) AS r (answer text)',
            'the next result of a query; no rows after the last'],
        ['rows_of(connection text, OUT id bigint, OUT content text) RETURNS SETOF record',
            'r.id, r.content FROM %s.dblink_get_result(connection) AS r (id bigint, content text)',
            'the next result of a query, if that has rows of the source']]
    LOOP
        EXECUTE pg_catalog.format('CREATE FUNCTION snowflake_feed.%s LANGUAGE sql VOLATILE PARALLEL UNSAFE BEGIN '
            'ATOMIC SELECT %s; END'::text, f[1], pg_catalog.format(f[2], home));
        EXECUTE pg_catalog.format('COMMENT ON FUNCTION snowflake_feed.%I IS %L'::text,
            pg_catalog.split_part(f[1], '('::text, 1), 'not to be called: '::text || f[3]);
    END LOOP;
END $$;

-- Each role has its own, as it has its own user mapping, and each home, whose functions it has prepared to call. A
-- foreign server that was altered gets a new one.
CREATE FUNCTION snowflake_feed.connection(server name, home name) RETURNS text
    LANGUAGE sql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    -- mutant: feed-whose-functions
    SELECT format('snowflake_feed %s %s %s %s', r.oid, s.oid, s.xmin, left(md5(home), 16))
        FROM pg_foreign_server s, pg_roles r WHERE s.srvname = server AND r.rolname = current_user
$$;
COMMENT ON FUNCTION snowflake_feed.connection(name, name) IS
    'not to be called: name of the connection to a foreign server; NULL if there is no such server';

-- Also those to what the foreign server was before it was altered.
CREATE FUNCTION snowflake_feed.close(server name) RETURNS void
    LANGUAGE sql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT snowflake_feed.disconnect(c) FROM unnest(snowflake_feed.connections()) c
        WHERE starts_with(c, substring(snowflake_feed.connection(server, NULL) FROM '^snowflake_feed \d+ \d+ '))
$$;
COMMENT ON FUNCTION snowflake_feed.close(name) IS 'not to be called: closes the connections to a foreign server';

-- dblink's own wait cannot be interrupted, and has no end.
CREATE FUNCTION snowflake_feed.await(connection text, until timestamptz) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    looks integer := 0;
    pause double precision := 0.0001;
BEGIN
    WHILE snowflake_feed.is_busy(connection) = 1 LOOP
        looks := looks + 1;
        -- Each look reads some kilobytes, so rows that come are read without a pause.
        IF looks % 64 = 0 THEN
            IF clock_timestamp() > until THEN
                RAISE EXCEPTION 'server has not answered in time' USING ERRCODE = 'connection_failure';
            END IF;
            PERFORM pg_sleep(pause);
            pause := least(pause * 1.5, 0.01);
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION snowflake_feed.await(text, timestamptz) IS 'not to be called: waits for the next result';

CREATE FUNCTION snowflake_feed.ask(connection text, query text) RETURNS text[]
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    until CONSTANT timestamptz := clock_timestamp() + interval '10 s';
    answer text;
    last_answer text;
BEGIN
    IF snowflake_feed.send(connection, query) <> 1 THEN
        RAISE EXCEPTION 'could not send query' USING ERRCODE = 'connection_failure';
    END IF;
    LOOP
        PERFORM snowflake_feed.await(connection, until);
        SELECT a INTO answer FROM snowflake_feed.answers(connection) a;
        EXIT WHEN NOT FOUND;
        last_answer := answer;
        IF clock_timestamp() > until THEN
            RAISE EXCEPTION 'server does not stop answering' USING ERRCODE = 'connection_failure';
        END IF;
    END LOOP;
    RETURN last_answer::text[];
END $$;
COMMENT ON FUNCTION snowflake_feed.ask(text, text) IS
    'not to be called: what a server answers to the last of some statements';

CREATE FUNCTION snowflake_feed.open(server name, home name) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    connection CONSTANT text := snowflake_feed.connection(server, home);
    -- Its service replaces a primary, and may not say on which timeline.
    is_hosted CONSTANT boolean := home IS NOT NULL;
    -- From 16 on, dblink waits for a connection as long as TCP does.
    needs CONSTANT text[] := CASE WHEN current_setting('server_version_num')::integer < 160000
        THEN ARRAY['connect_timeout', '3'] ELSE ARRAY['tcp_user_timeout', '3000'] END;
    has text;
    answer text[];
BEGIN
    IF connection IS NULL THEN
        RAISE EXCEPTION 'server "%" does not exist', server USING ERRCODE = 'undefined_object';
    END IF;
    SELECT o.option_value INTO has FROM pg_foreign_server s, pg_options_to_table(s.srvoptions) o
        WHERE s.srvname = server AND o.option_name = needs[1];
    IF (has ~ '[1-9]') IS NOT TRUE THEN
        RAISE EXCEPTION 'server "%" has no %', server, needs[1] USING ERRCODE = 'object_not_in_prerequisite_state',
            DETAIL = 'While it cannot be reached, reading would take minutes.',
            HINT = format('Use ALTER SERVER %I OPTIONS (%s %s %L).', server,
                CASE WHEN has IS NULL THEN 'ADD' ELSE 'SET' END, needs[1], needs[2]);
    END IF;
    PERFORM snowflake_feed.close(server);
    PERFORM snowflake_feed.connect(connection, server::text);
    -- This database reads the texts of values: so in forms that no setting changes, with all names qualified.
    answer := snowflake_feed.ask(connection, $q$
        SELECT ARRAY[(SELECT n.nspname::pg_catalog.text FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n
                ON n.oid OPERATOR(pg_catalog.=) e.extnamespace
                WHERE e.extname OPERATOR(pg_catalog.=) 'snowflake_pg'::pg_catalog.name),
            pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false),
            pg_catalog.set_config('datestyle', 'ISO, YMD', false),
            pg_catalog.set_config('intervalstyle', 'postgres', false),
            pg_catalog.set_config('extra_float_digits', '3', false),
            pg_catalog.set_config('bytea_output', 'hex', false),
            pg_catalog.set_config('lc_monetary', 'C', false),
            pg_catalog.set_config('client_min_messages', 'error', false),
            pg_catalog.set_config('default_transaction_read_only', 'off', false),
            pg_catalog.set_config('default_transaction_isolation', 'read committed', false),
            pg_catalog.set_config('statement_timeout', '10s', false)]
        $q$);
    -- Only the extension can be searched for: anybody may have functions with the names of those in plain SQL.
    home := coalesce(home, answer[1]);
    IF home IS NULL THEN
        RAISE EXCEPTION 'server "%" does not have the extension snowflake_pg', server
            USING ERRCODE = 'undefined_object', HINT = 'Run CREATE EXTENSION snowflake_pg in that database. If it has '
                'the functions in plain SQL, name their schema, as in home => ''ids''.';
    END IF;
    -- The extension can be in any schema there. Nobody can put functions of the same arguments beside these. With each
    -- horizon comes whose it is: a connection may be older than what is known of the server.
    PERFORM snowflake_feed.ask(connection, format($q$
        PREPARE snowflake_feed_horizon AS
            SELECT ARRAY[h.id::text, %1$I.snowflake_timestamp(h.id)::text, c.system_identifier::text, d.oid::text,
                -- Without its name: it can have several.
                coalesce(substring(s.layout FROM '[(](.*)[)]$'), s.layout),
                concat_ws('/', s.datacenter_id, s.worker_id),
                set_config('snowflake_feed.horizon', coalesce(h.id, 0)::text, true), %2$s]
            FROM (SELECT %1$I.snowflake_horizon() OFFSET 0) AS h (id), pg_control_system() c, pg_database d,
                %1$I.snowflake_status s
            WHERE d.datname = current_database();
        PREPARE snowflake_feed_bound (timestamptz) AS SELECT ARRAY[%1$I.snowflake_bound($1, '>=')::text];
        PREPARE snowflake_feed_writers AS SELECT ARRAY[EXISTS (SELECT FROM %1$I.snowflake_writers)::text];
        SELECT '{}'
        $q$, home, CASE WHEN is_hosted THEN 'NULL' ELSE
            -- That of the control file is older until a checkpoint has ended.
            'CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) END' END));
END $$;
COMMENT ON FUNCTION snowflake_feed.open(name, name) IS 'not to be called: connects to a server';

CREATE FUNCTION snowflake_feed.learn(INOUT member snowflake_feed.member, answer text[])
    LANGUAGE plpgsql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- These are stored. dblink takes texts that are not valid in the encoding of the database.
    -- mutant: feed-valid-texts
    PERFORM convert_to(answer::text, getdatabaseencoding());
    -- mutant: feed-whose-horizon
    IF (answer[3]::bigint, answer[4]::oid) <> (member.system_identifier, member.database) THEN
        RAISE EXCEPTION 'server "%" is another database than before', member.server
            USING ERRCODE = 'object_not_in_prerequisite_state',
            DETAIL = format('It is database %s of cluster %s, and was database %s of cluster %s.', answer[4]::oid,
                answer[3]::bigint, member.database, member.system_identifier),
            HINT = 'If it has the rows of the one before, as after pg_upgrade, use accept_server().';
    END IF;
    IF answer[5] <> member.layout THEN
        RAISE EXCEPTION 'server "%" has another layout than before', member.server
            USING ERRCODE = 'object_not_in_prerequisite_state',
            DETAIL = format('Its layout is "%s", and was "%s".', answer[5], member.layout),
            HINT = 'Restore its layout: IDs of different layouts have no common order.';
    END IF;
    -- mutant: feed-older-timeline
    IF answer[8] COLLATE "C" < member.timeline COLLATE "C" THEN
        RAISE EXCEPTION 'server "%" is on an older timeline than before', member.server
            USING ERRCODE = 'object_not_in_prerequisite_state',
            DETAIL = format('Its timeline is %s, and was %s: it was replaced, and still runs.', answer[8],
                member.timeline),
            HINT = 'Stop it, or take its host out of the foreign server''s options.';
    END IF;
    IF answer[1] IS NULL THEN
        RAISE EXCEPTION 'server "%" has no horizon', member.server
            USING ERRCODE = 'object_not_in_prerequisite_state', DETAIL =
            'A transaction was prepared before it started, its clock is behind the IDs of another worker, or it is '
            'hosted, and has issued no ID or always has writers.',
            HINT = 'Call snowflake_horizon() there, which says why.';
    END IF;
    member.system_identifier := answer[3];
    member.database := answer[4];
    member.timeline := coalesce(left(answer[8], 8), member.timeline);
    member.layout := left(answer[5], 100);
    member.worker := left(nullif(answer[6], ''), 20);
    member.horizon := answer[1];
    member.horizon_at := answer[2];
    IF isfinite(member.horizon_at) IS NOT TRUE THEN
        RAISE EXCEPTION 'server has sent what it was not asked for';
    END IF;
END $$;
COMMENT ON FUNCTION snowflake_feed.learn(snowflake_feed.member, text[]) IS
    'not to be called: what a server says of itself and its horizon, if it is what it was';

-- A session keeps its connections.
CREATE FUNCTION snowflake_feed.request(server name, home name, query text) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    connection CONSTANT text := snowflake_feed.connection(server, home);
BEGIN
    IF connection = ANY (snowflake_feed.connections()) THEN
        -- Notices whether the server has closed the connection.
        PERFORM snowflake_feed.is_busy(connection);
        -- Not sent after that, nor while a read that was canceled has left a query.
        IF snowflake_feed.send(connection, query) = 1 THEN
            RETURN;
        END IF;
    END IF;
    PERFORM snowflake_feed.open(server, home);
    IF snowflake_feed.send(connection, query) <> 1 THEN
        RAISE EXCEPTION 'could not send query' USING ERRCODE = 'connection_failure';
    END IF;
END $$;
COMMENT ON FUNCTION snowflake_feed.request(name, name, text) IS
    'not to be called: sends a query to a server, and connects to it before if need be';
