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

CREATE FUNCTION snowflake_feed.add_server(feed text, server name, since timestamptz DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    this CONSTANT snowflake_feed.feed := snowflake_feed.lock(feed);
    m snowflake_feed.member;
    other snowflake_feed.member;
    connection text;
    answer text[];
    message text;
BEGIN
    IF EXISTS (SELECT FROM snowflake_feed.member o WHERE o.feed = this.name AND o.server = add_server.server) THEN
        RAISE EXCEPTION 'feed "%" already has server "%"', feed, server USING ERRCODE = 'duplicate_object';
    END IF;
    m.feed := this.name;
    m.server := server;
    PERFORM snowflake_feed.close(server);
    m := snowflake_feed.open(m);
    connection := snowflake_feed.connection(server);
    SELECT * INTO other FROM snowflake_feed.member o WHERE o.feed = m.feed
        AND (o.system_identifier = m.system_identifier OR o.layout <> m.layout OR o.worker = m.worker)
        ORDER BY o.system_identifier <> m.system_identifier, o.layout = m.layout LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'server "%" cannot be in a feed with server "%"', server, other.server
            USING ERRCODE = 'object_not_in_prerequisite_state',
            DETAIL = CASE WHEN other.system_identifier = m.system_identifier THEN
                    'Both belong to one database cluster.'
                WHEN other.layout <> m.layout THEN format('Their layouts are "%s" and "%s".', m.layout, other.layout)
                ELSE format('Both have worker %s.', m.worker) END,
            HINT = CASE WHEN other.system_identifier = m.system_identifier THEN
                    'Use one of them: list the hosts of a primary and its standbys in one foreign server.'
                WHEN other.layout <> m.layout THEN 'Servers of one feed need one snowflake_pg.layout.'
                ELSE 'Give each server its own worker, and read the feed once.' END;
    END IF;
    BEGIN
        answer := snowflake_feed.ask(connection, 'EXECUTE snowflake_feed_horizon');
    EXCEPTION WHEN object_not_in_prerequisite_state THEN
        GET STACKED DIAGNOSTICS message = MESSAGE_TEXT;
        RAISE EXCEPTION 'server "%" has no horizon', server USING ERRCODE = 'object_not_in_prerequisite_state',
            DETAIL = format('It says: %s.', message),
            HINT = 'Servers of a feed need snowflake_pg.track_writers = on, snowflake_pg.wal_mark = on for standbys, '
                'and another snowflake_pg.clock_regression than history.';
    END;
    IF answer[1] IS NULL THEN
        RAISE EXCEPTION 'server "%" has no horizon', server USING ERRCODE = 'object_not_in_prerequisite_state',
            DETAIL = 'A transaction was prepared before it started, or its clock is behind the IDs of another worker.',
            HINT = 'Call snowflake_horizon() there, which says why.';
    END IF;
    m.asked_at := clock_timestamp();
    m.horizon := answer[1];
    m.horizon_at := answer[2];
    m.read_to := CASE WHEN since IS NULL THEN m.horizon WHEN since = '-infinity' THEN 1
        ELSE (snowflake_feed.ask(connection, format('EXECUTE snowflake_feed_min_id (%L)', since)))[1]::bigint END - 1;
    -- Fails if the role there may not read it, or if it has no such column.
    answer := snowflake_feed.ask(connection, format(
        'SELECT ARRAY[(SELECT relkind FROM pg_class WHERE oid = %1$L::regclass)::text, '
        '(SELECT r.%2$I FROM %1$s r WHERE r.%2$I > 9223372036854775806::bigint LIMIT 1)::bigint::text]',
        this.source, this.column_name));
    IF answer[1] NOT IN ('r', 'p', 'v') THEN
        RAISE EXCEPTION '% on server "%" is not a table or a view', this.source, server
            USING ERRCODE = 'wrong_object_type', DETAIL = 'A horizon says nothing of when its rows appear.';
    END IF;
    INSERT INTO snowflake_feed.member VALUES (m.*);
    IF NOT EXISTS (SELECT FROM pg_foreign_server s, pg_options_to_table(s.srvoptions) o
        WHERE s.srvname = server AND o.option_name = 'connect_timeout')
    THEN
        RAISE NOTICE 'server "%" has no connect_timeout', server
            USING DETAIL = 'While it cannot be reached, reading can take minutes, and cannot be canceled.',
                HINT = format('Use ALTER SERVER %I OPTIONS (ADD connect_timeout ''3'').', server);
    END IF;
END $$;
COMMENT ON FUNCTION snowflake_feed.add_server(text, name, timestamptz) IS
    'let a feed return the rows of another foreign server, from now on, or since a time: SELECT '
    'snowflake_feed.add_server(''orders'', ''shard_1'')';

CREATE FUNCTION snowflake_feed.drop_server(feed text, server name, force boolean DEFAULT false) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    this CONSTANT snowflake_feed.feed := snowflake_feed.lock(feed);
    m snowflake_feed.member;
    connection CONSTANT text := snowflake_feed.connection(server);
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
    m := snowflake_feed.open(m);
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
