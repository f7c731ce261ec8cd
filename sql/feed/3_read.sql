-- Reading

CREATE FUNCTION snowflake_feed.query(feed snowflake_feed.feed, member snowflake_feed.member, row_type regtype,
    max_rows integer) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    -- Two statements: the rows are those of a snapshot that is taken after the horizon was read.
    RETURN format($q$
        SELECT ARRAY[h.horizon::text, %1$I.snowflake_timestamp(h.horizon)::text]
            FROM (SELECT %1$I.snowflake_horizon() OFFSET 0) AS h (horizon);
        SELECT r.%2$I::bigint, ROW(%3$s)::text
            FROM %1$I.snowflake_poll(NULL::%4$s, %5$L::bigint, %6$L::integer, %2$L::name) r
        $q$,
        member.functions, feed.column_name,
        (SELECT string_agg(format('r.%I', attname), ', ' ORDER BY attnum) FROM pg_type t
            JOIN pg_attribute ON attrelid = t.typrelid
            WHERE t.oid = row_type AND attnum > 0 AND NOT attisdropped),
        feed.source, member.read_to, max_rows);
COMMENT ON FUNCTION snowflake_feed.query(snowflake_feed.feed, snowflake_feed.member, regtype, integer) IS
    'not to be called: what a server is asked: its horizon, and then rows below its next one';

CREATE FUNCTION snowflake_feed.read(relation anyelement, feed text, max_rows integer DEFAULT 1000,
    patience interval DEFAULT NULL)
    RETURNS SETOF anyelement
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    this snowflake_feed.feed;
    members snowflake_feed.member[] := '{}';
    m snowflake_feed.member;
    n integer;
    connection text;
    got_ids bigint[];
    got_data text[];
    ids bigint[] := '{}';
    data text[] := '{}';
    answer text[];
    bounds bigint[] := '{}';
    bound bigint;
    message text;
    detail text;
BEGIN
    IF max_rows IS NULL OR max_rows < 1 THEN
        RAISE EXCEPTION 'max_rows must be greater than 0' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_type t JOIN pg_class c ON c.oid = t.typrelid WHERE t.oid = pg_typeof(relation)
        AND c.relkind <> 'c') THEN
        RAISE EXCEPTION '% is not the row type of a table', pg_typeof(relation) USING ERRCODE = 'wrong_object_type',
            HINT = 'Name a table with the columns to read by its type, as in NULL::outbox.';
    END IF;
    -- One reader at a time.
    SELECT * INTO this FROM snowflake_feed.feed f WHERE f.name = read.feed FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'feed "%" does not exist', feed USING ERRCODE = 'undefined_object',
            HINT = 'See snowflake_feed.create().';
    END IF;
    -- All are asked before one is waited for.
    FOR m IN SELECT * FROM snowflake_feed.member o WHERE o.feed = read.feed ORDER BY o.server LOOP
        connection := snowflake_feed.connection(m.server);
        BEGIN
            -- A server that is away is not asked each time: connecting can take as long as connect_timeout.
            IF m.problem IS NULL OR clock_timestamp() > m.asked_at
                + least((m.asked_at - m.problem_since) / 4, interval '10 s') THEN
                m.asked_at := clock_timestamp();
                IF connection IS NULL OR connection <> ALL (coalesce(snowflake_feed.connections(), '{}')) THEN
                    m := snowflake_feed.open(m);
                END IF;
                PERFORM snowflake_feed.send(connection, snowflake_feed.query(this, m, pg_typeof(relation), max_rows));
                m.problem := NULL;
            END IF;
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
            m.problem := concat_ws(': ', message, nullif(detail, ''));
        END;
        members := members || m;
    END LOOP;
    -- mutant: feed-late-horizon
    FOR n IN 1..cardinality(members) LOOP
        m := members[n];
        IF m.problem IS NULL THEN
            connection := snowflake_feed.connection(m.server);
            BEGIN
                PERFORM snowflake_feed.await(connection, m.asked_at + interval '10 s');
                SELECT a INTO answer FROM snowflake_feed.answers(connection) a;
                PERFORM snowflake_feed.await(connection, m.asked_at + interval '10 s');
                SELECT array_agg(r.id), array_agg(r.data) INTO got_ids, got_data
                    FROM snowflake_feed.rows_of(connection) r;
                PERFORM snowflake_feed.await(connection, m.asked_at + interval '10 s');
                PERFORM FROM snowflake_feed.answers(connection);
                bound := answer[1];
                IF bound IS NULL THEN
                    RAISE EXCEPTION 'server has no horizon'
                        USING DETAIL = 'A transaction was prepared before it started.';
                END IF;
                IF EXISTS (SELECT FROM unnest(got_ids, got_data) AS r (id, content) WHERE id <= m.read_to OR id IS NULL
                    OR content IS NULL) THEN
                    RAISE EXCEPTION 'server has answered with rows that were not asked for';
                END IF;
                -- Here, so that an error is one of this server.
                EXECUTE format('SELECT count(data::%s) FROM unnest($1) data', pg_typeof(relation)) USING got_data;
                IF cardinality(got_ids) >= max_rows THEN
                    bound := least(bound, (SELECT max(id) FROM unnest(got_ids) id) + 1);
                END IF;
                m.horizon := answer[1];
                m.horizon_at := answer[2];
                m.problem_since := NULL;
                bounds[n] := bound;
                ids := ids || got_ids;
                data := data || got_data;
            EXCEPTION WHEN OTHERS THEN
                GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
                m.problem := concat_ws(': ', message, nullif(detail, ''));
            END;
        END IF;
        IF m.problem IS NOT NULL THEN
            m.problem_since := coalesce(m.problem_since, m.asked_at);
            PERFORM snowflake_feed.close(m.server);
            -- It holds the feed up, unless the reader has lost patience: then its rows come later.
            IF patience IS NULL OR m.asked_at - m.problem_since <= patience THEN
                bounds[n] := m.read_to + 1;
            END IF;
        END IF;
        members[n] := m;
    END LOOP;
    -- Below it, no server has a row that is not here.
    SELECT min(b) INTO bound FROM unnest(bounds) b;
    SELECT coalesce((SELECT id + 1 FROM unnest(ids) id WHERE id < bound ORDER BY id OFFSET max_rows - 1 LIMIT 1),
        bound) INTO bound;
    UPDATE snowflake_feed.member o SET worker = new.worker, functions = new.functions, horizon = new.horizon,
        horizon_at = new.horizon_at,
        asked_at = new.asked_at, problem = new.problem, problem_since = new.problem_since,
        read_to = CASE WHEN bounds[new.nth] IS NULL THEN o.read_to ELSE greatest(o.read_to, bound - 1) END
        FROM unnest(members) WITH ORDINALITY AS new (feed, server, system_identifier, layout, worker, functions,
            read_to, horizon, horizon_at,
            asked_at, problem, problem_since, nth)
        WHERE o.feed = new.feed AND o.server = new.server;
    RETURN QUERY EXECUTE format(
        'SELECT (r.row).* FROM (SELECT data::%s AS row FROM unnest($1, $2) AS u (id, data) WHERE id < $3 ORDER BY id '
        'OFFSET 0) r', pg_typeof(relation))
        USING ids, data, bound;
END $$;
COMMENT ON FUNCTION snowflake_feed.read(anyelement, text, integer, interval) IS
    'new rows of all servers of a feed in the order of their IDs, each once: SELECT * FROM '
    'snowflake_feed.read(NULL::outbox, ''orders'')';
