-- Feeds and their servers

CREATE FUNCTION snowflake_feed.create(feed text, source text, column_name name DEFAULT 'id') RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    parts CONSTANT text[] := parse_ident(source);
BEGIN
    IF feed IS NULL OR source IS NULL OR column_name IS NULL THEN
        RAISE EXCEPTION 'feed, source and column_name must not be null' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF cardinality(parts) <> 2 THEN
        RAISE EXCEPTION 'invalid name of a table: "%"', source USING ERRCODE = 'invalid_name',
            HINT = 'Name its schema, too, as in shop.outbox.';
    END IF;
    INSERT INTO snowflake_feed.feed VALUES (feed, format('%I.%I', parts[1], parts[2]), column_name)
        ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'feed "%" already exists', feed USING ERRCODE = 'duplicate_object';
    END IF;
END $$;
COMMENT ON FUNCTION snowflake_feed.create(text, text, name) IS
    'begin a feed of a table that its servers have: SELECT snowflake_feed.create(''orders'', ''shop.outbox'')';

CREATE FUNCTION snowflake_feed.meet(INOUT member snowflake_feed.member)
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    connection CONSTANT text := snowflake_feed.connection(member.server, member.home);
    this snowflake_feed.feed;
    other snowflake_feed.member;
    answer text[];
BEGIN
    PERFORM snowflake_feed.open(member.server, member.home);
    member := snowflake_feed.learn(member, snowflake_feed.ask(connection, 'EXECUTE snowflake_feed_horizon'));
    member.asked_at := clock_timestamp();
    SELECT * INTO other FROM snowflake_feed.member o WHERE o.feed = member.feed AND o.server <> member.server
        AND (o.system_identifier = member.system_identifier OR o.layout <> member.layout OR o.worker = member.worker)
        ORDER BY o.system_identifier <> member.system_identifier, o.layout = member.layout LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'server "%" cannot be in a feed with server "%"', member.server, other.server
            USING ERRCODE = 'object_not_in_prerequisite_state',
            DETAIL = CASE WHEN other.system_identifier = member.system_identifier THEN
                    'Both belong to one database cluster.'
                WHEN other.layout <> member.layout THEN
                    format('Their layouts are "%s" and "%s".', member.layout, other.layout)
                ELSE format('Both have worker %s.', member.worker) END,
            HINT = CASE WHEN other.system_identifier = member.system_identifier THEN
                    'Use one of them: list the hosts of a primary and its standbys in one foreign server.'
                WHEN other.layout <> member.layout THEN 'Servers of one feed need one snowflake_pg.layout.'
                ELSE 'Give each server its own worker, and read the feed once.' END;
    END IF;
    SELECT * INTO this FROM snowflake_feed.feed f WHERE f.name = member.feed;
    -- Fails if the role there may not read it, or if it has no such column of integers.
    answer := snowflake_feed.ask(connection, format(
        'SELECT ARRAY[(SELECT relkind FROM pg_class WHERE oid = %1$L::regclass)::text, '
        '(SELECT int8larger(r.%2$I, 0) FROM %1$s r WHERE r.%2$I > 9223372036854775806::bigint LIMIT 1)::text]',
        this.source, this.column_name));
    IF answer[1] NOT IN ('r', 'p', 'v') THEN
        RAISE EXCEPTION '% on server "%" is not a table or a view', this.source, member.server
            USING ERRCODE = 'wrong_object_type', DETAIL = 'A horizon says nothing of when its rows appear.';
    END IF;
END $$;
COMMENT ON FUNCTION snowflake_feed.meet(snowflake_feed.member) IS
    'not to be called: connects to a server that is to be in a feed, and compares it with the others';

CREATE FUNCTION snowflake_feed.add_server(feed text, server name, since timestamptz DEFAULT NULL,
    home name DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    -- A server gets the time as a text.
    SET datestyle = 'ISO, YMD' AS $$
DECLARE
    this CONSTANT snowflake_feed.feed := snowflake_feed.lock(feed);
    m snowflake_feed.member;
    connection CONSTANT text := snowflake_feed.connection(server, home);
    answer text[];
BEGIN
    IF EXISTS (SELECT FROM snowflake_feed.member o WHERE o.feed = this.name AND o.server = add_server.server) THEN
        RAISE EXCEPTION 'feed "%" already has server "%"', feed, server USING ERRCODE = 'duplicate_object';
    END IF;
    m.feed := this.name;
    m.server := server;
    m.home := home;
    m := snowflake_feed.meet(m);
    m.read_to := m.horizon - 1;
    IF since IS NOT NULL THEN
        answer := snowflake_feed.ask(connection, format('EXECUTE snowflake_feed_bound (%L)', since));
        IF answer[1] IS NULL THEN
            RAISE EXCEPTION 'since is after the last time of the layout' USING ERRCODE = 'invalid_parameter_value',
                DETAIL = format('The value is %s.', since), HINT = 'To return new rows alone, leave it out.';
        END IF;
        m.read_to := least(m.read_to, greatest(answer[1]::bigint, 1) - 1);
    END IF;
    INSERT INTO snowflake_feed.member VALUES (m.*);
END $$;
COMMENT ON FUNCTION snowflake_feed.add_server(text, name, timestamptz, name) IS
    'let a feed return the rows of another foreign server, from now on, or since a time (''-infinity'': all of them); '
    'home is the schema of the functions of a hosted database: SELECT snowflake_feed.add_server(''orders'', '
    '''shard_1'')';

CREATE FUNCTION snowflake_feed.accept_server(feed text, server name, home name DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    this CONSTANT snowflake_feed.feed := snowflake_feed.lock(feed);
    m snowflake_feed.member;
BEGIN
    SELECT * INTO m FROM snowflake_feed.member o WHERE o.feed = this.name AND o.server = accept_server.server;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'feed "%" has no server "%"', feed, server USING ERRCODE = 'undefined_object';
    END IF;
    m.home := home;
    m.system_identifier := NULL;
    m.database := NULL;
    m.timeline := NULL;
    m := snowflake_feed.meet(m);
    -- mutant: feed-accepts-behind
    IF m.horizon <= m.read_to THEN
        RAISE EXCEPTION 'server "%" may issue IDs below those that were read', server
            USING ERRCODE = 'object_not_in_prerequisite_state',
            DETAIL = format('Its horizon is %s, and the feed has read to %s.', m.horizon, m.read_to),
            HINT = format('Before rows are inserted there, call snowflake_advance(%s). Rows that were inserted since '
                'it replaced the one before, with smaller IDs, are missed.', m.read_to);
    END IF;
    UPDATE snowflake_feed.member o SET home = m.home, system_identifier = m.system_identifier,
        database = m.database, timeline = m.timeline, worker = m.worker, horizon = m.horizon,
        horizon_at = m.horizon_at, asked_at = m.asked_at, problem = NULL, problem_since = NULL, retry_at = NULL
        WHERE o.feed = m.feed AND o.server = m.server;
END $$;
COMMENT ON FUNCTION snowflake_feed.accept_server(text, name, name) IS
    'let a feed go on after its last row from a server whose rows are in another database than before, as after '
    'pg_upgrade; home as in add_server(): SELECT snowflake_feed.accept_server(''orders'', ''shard_1'')';

CREATE FUNCTION snowflake_feed.drop_server(feed text, server name, force boolean DEFAULT false) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    this CONSTANT snowflake_feed.feed := snowflake_feed.lock(feed);
    m snowflake_feed.member;
    connection text;
    may_have_rows text;
BEGIN
    DELETE FROM snowflake_feed.member o WHERE o.feed = this.name AND o.server = drop_server.server RETURNING * INTO m;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'feed "%" has no server "%"', feed, server USING ERRCODE = 'undefined_object';
    END IF;
    PERFORM snowflake_feed.close(server);
    IF force THEN
        RETURN;
    END IF;
    PERFORM snowflake_feed.open(server, m.home);
    connection := snowflake_feed.connection(server, m.home);
    m := snowflake_feed.learn(m, snowflake_feed.ask(connection, 'EXECUTE snowflake_feed_horizon'));
    -- In this order, since a writer that is there can commit a row meanwhile.
    may_have_rows := CASE
        WHEN (snowflake_feed.ask(connection, 'SELECT ARRAY[pg_is_in_recovery()::text]'))[1]::boolean
            THEN 'It is a standby, which does not know the writers of its primary.'
        -- mutant: feed-leaves-early
        WHEN (snowflake_feed.ask(connection, 'EXECUTE snowflake_feed_writers'))[1]::boolean
            THEN 'A transaction that has drawn an ID has not ended there.'
        WHEN (snowflake_feed.ask(connection, format('SELECT ARRAY[EXISTS (SELECT FROM %s r WHERE r.%I > '
            '%L::bigint)::text]', this.source, this.column_name, m.read_to)))[1]::boolean
            THEN format('It has rows after %s.', m.read_to) END;
    IF may_have_rows IS NOT NULL THEN
        RAISE EXCEPTION 'server "%" may have rows that were not read', server USING ERRCODE = 'object_in_use',
            DETAIL = may_have_rows,
            HINT = 'End its writers, and read the feed until it returns no rows; or use force => true.';
    END IF;
    PERFORM snowflake_feed.close(server);
END $$;
COMMENT ON FUNCTION snowflake_feed.drop_server(text, name, boolean) IS
    'take a server out of a feed that has returned all of its rows: SELECT snowflake_feed.drop_server(''orders'', '
    '''shard_1'')';

CREATE FUNCTION snowflake_feed.drop(feed text) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    this CONSTANT snowflake_feed.feed := snowflake_feed.lock(feed);
BEGIN
    DELETE FROM snowflake_feed.member m WHERE m.feed = this.name;
    DELETE FROM snowflake_feed.feed f WHERE f.name = this.name;
END $$;
COMMENT ON FUNCTION snowflake_feed.drop(text) IS
    'end a feed, and forget its positions: SELECT snowflake_feed.drop(''orders'')';
