-- Feeds and their servers

CREATE FUNCTION snowflake_feed.create(feed text, source text, column_name name DEFAULT 'id') RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF feed IS NULL OR source IS NULL OR column_name IS NULL THEN
        RAISE EXCEPTION 'feed, source and column_name must not be null' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF cardinality(parse_ident(source)) <> 2 THEN
        RAISE EXCEPTION 'invalid name of a table: "%"', source USING ERRCODE = 'invalid_name',
            HINT = 'Write its schema, too, as in shop.outbox.';
    END IF;
    INSERT INTO snowflake_feed.feed VALUES (feed, (SELECT string_agg(quote_ident(part), '.' ORDER BY nth)
        FROM unnest(parse_ident(source)) WITH ORDINALITY AS p (part, nth)), column_name) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'feed "%" already exists', feed USING ERRCODE = 'duplicate_object';
    END IF;
END $$;
COMMENT ON FUNCTION snowflake_feed.create(text, text, name) IS
    'begin a feed of a table that its servers have: SELECT snowflake_feed.create(''orders'', ''shop.outbox'')';

CREATE FUNCTION snowflake_feed.add_server(feed text, server name, since timestamptz DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    m snowflake_feed.member;
    other snowflake_feed.member;
    answer text[];
BEGIN
    PERFORM FROM snowflake_feed.feed f WHERE f.name = add_server.feed FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'feed "%" does not exist', feed USING ERRCODE = 'undefined_object',
            HINT = 'See snowflake_feed.create().';
    END IF;
    IF EXISTS (SELECT FROM snowflake_feed.member o WHERE o.feed = add_server.feed AND o.server = add_server.server) THEN
        RAISE EXCEPTION 'server "%" is in feed "%" already', server, feed USING ERRCODE = 'duplicate_object';
    END IF;
    m.feed := feed;
    m.server := server;
    PERFORM snowflake_feed.close(server);
    m := snowflake_feed.open(m);
    answer := snowflake_feed.ask(snowflake_feed.connection(server), format($q$
        SELECT ARRAY[h.horizon::text, %1$I.snowflake_timestamp(h.horizon)::text,
            CASE WHEN %2$L::timestamptz IS NULL THEN h.horizon
            WHEN %2$L::timestamptz = '-infinity' THEN 1 ELSE %1$I.snowflake_min_id(%2$L::timestamptz) END::text]
        FROM (SELECT %1$I.snowflake_horizon() OFFSET 0) AS h (horizon)$q$, m.functions, since));
    m.asked_at := clock_timestamp();
    m.horizon := answer[1];
    m.horizon_at := answer[2];
    m.read_to := answer[3]::bigint - 1;
    SELECT * INTO other FROM snowflake_feed.member o WHERE o.feed = m.feed
        AND (o.layout <> m.layout OR o.worker = m.worker
        OR o.system_identifier = m.system_identifier) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'server "%" cannot be in a feed with server "%"', server, other.server
            USING ERRCODE = 'object_not_in_prerequisite_state',
            DETAIL = CASE WHEN other.system_identifier = m.system_identifier THEN 'Both are of one database cluster.'
                WHEN other.layout <> m.layout THEN format('Their layouts are "%s" and "%s".', m.layout, other.layout)
                ELSE format('Both have worker %s.', m.worker) END;
    END IF;
    INSERT INTO snowflake_feed.member SELECT (m).*;
END $$;
COMMENT ON FUNCTION snowflake_feed.add_server(text, name, timestamptz) IS
    'let a feed return the rows of another foreign server: from now on, or since a time: SELECT '
    'snowflake_feed.add_server(''orders'', ''shard_1'')';

CREATE FUNCTION snowflake_feed.drop_server(feed text, server name, force boolean DEFAULT false) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    m snowflake_feed.member;
    this snowflake_feed.feed;
BEGIN
    SELECT * INTO this FROM snowflake_feed.feed f WHERE f.name = drop_server.feed FOR UPDATE;
    DELETE FROM snowflake_feed.member o WHERE o.feed = drop_server.feed AND o.server = drop_server.server RETURNING *
        INTO m;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'feed "%" has no server "%"', feed, server USING ERRCODE = 'undefined_object';
    END IF;
    PERFORM snowflake_feed.close(server);
    IF force THEN
        RETURN;
    END IF;
    m := snowflake_feed.open(m);
    IF (snowflake_feed.ask(snowflake_feed.connection(server), format(
        'SELECT ARRAY[(EXISTS (SELECT FROM %1$I.snowflake_writers) OR EXISTS (SELECT FROM %2$s r WHERE r.%3$I > '
        '%4$L::bigint))::text]',
        m.functions, this.source, this.column_name, m.read_to)))[1]::boolean THEN
        RAISE EXCEPTION 'server "%" may have rows that were not read', server USING ERRCODE = 'object_in_use',
            DETAIL = format('The feed has read to %s.', m.read_to),
            HINT = 'End its writers, and read to the end; or use force => true.';
    END IF;
    PERFORM snowflake_feed.close(server);
END $$;
COMMENT ON FUNCTION snowflake_feed.drop_server(text, name, boolean) IS
    'take a server out of a feed that has returned all of its rows: SELECT snowflake_feed.drop_server(''orders'', '
    '''shard_1'')';

CREATE FUNCTION snowflake_feed.drop(feed text) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM snowflake_feed.member m WHERE m.feed = drop.feed;
    DELETE FROM snowflake_feed.feed f WHERE f.name = drop.feed;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'feed "%" does not exist', feed USING ERRCODE = 'undefined_object';
    END IF;
END $$;
COMMENT ON FUNCTION snowflake_feed.drop(text) IS
    'end a feed, and forget its positions: SELECT snowflake_feed.drop(''orders'')';
