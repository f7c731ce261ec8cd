-- Reading

CREATE FUNCTION snowflake_feed.query(feed snowflake_feed.feed, member snowflake_feed.member, row_type regtype,
    max_rows integer) RETURNS text
    LANGUAGE sql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    -- Two statements, so the rows are of a snapshot that is taken after the horizon was read. Not snowflake_poll(),
    -- beside which others can put a function with the row type of the table as its argument.
    SELECT format($q$
        EXECUTE snowflake_feed_horizon;
        SELECT r.%1$I::bigint, ROW(%2$s)::text FROM %3$s r
            WHERE r.%1$I > %4$L::bigint AND r.%1$I < current_setting('snowflake_feed.horizon')::bigint
            ORDER BY r.%1$I FETCH FIRST %5$s ROWS WITH TIES
        $q$,
        feed.column_name,
        (SELECT string_agg(format('r.%I', attname), ', ' ORDER BY attnum) FROM pg_type t
            JOIN pg_attribute ON attrelid = t.typrelid
            WHERE t.oid = row_type AND attnum > 0 AND NOT attisdropped),
        feed.source, member.read_to, max_rows)
$$;
COMMENT ON FUNCTION snowflake_feed.query(snowflake_feed.feed, snowflake_feed.member, regtype, integer) IS
    'not to be called: what a server is asked: its horizon, and then its next rows below that';

CREATE FUNCTION snowflake_feed.describe(message text, detail text) RETURNS text
    LANGUAGE plpgsql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    problem CONSTANT text := concat_ws(': ', message, nullif(detail, ''));
BEGIN
    PERFORM convert_to(problem, getdatabaseencoding());
    RETURN left(problem, 1000);
EXCEPTION WHEN character_not_in_repertoire THEN
    RETURN 'server has sent an error that is not valid in the encoding of this database';
END $$;
COMMENT ON FUNCTION snowflake_feed.describe(text, text) IS 'not to be called: an error as a problem of a server';

CREATE FUNCTION snowflake_feed.read_marked(relation anyelement, feed text, max_rows integer DEFAULT 1000,
    patience interval DEFAULT NULL, OUT server name, OUT is_late boolean, OUT content anyelement)
    RETURNS SETOF record
    -- dblink has notices about queries that cannot be sent.
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET client_min_messages = warning
    SET array_nulls = on SET lc_monetary = 'C' AS $$
DECLARE
    row_type CONSTANT regtype := pg_typeof(relation);
    this snowflake_feed.feed;
    members snowflake_feed.member[] := '{}';
    m snowflake_feed.member;
    told snowflake_feed.member;
    lowest bigint;
    asks_until timestamptz;
    shares integer[] := '{}';
    asked boolean[] := '{}';
    spent interval[] := '{}';
    bounds bigint[] := '{}';
    bound bigint;
    origins integer[] := '{}';
    ids bigint[] := '{}';
    contents text[] := '{}';
    got_ids bigint[];
    got_contents text[];
    size bigint;
    last_id bigint;
    answer text[];
    nth integer;
    connection text;
    began timestamptz;
    until timestamptz;
    message text;
    detail text;
    context text;
BEGIN
    IF max_rows IS NULL OR max_rows < 1 THEN
        RAISE EXCEPTION 'max_rows must be greater than 0' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_type t WHERE t.oid = row_type AND t.typtype = 'c') THEN
        RAISE EXCEPTION '% is not the type of a row', row_type USING ERRCODE = 'wrong_object_type',
            HINT = 'Name a table of this database that has the columns to read, by its type, as in NULL::outbox.';
    END IF;
    -- mutant: feed-lock
    this := snowflake_feed.lock(feed);
    asks_until := clock_timestamp() + interval '10 s';
    -- How far rows were read on the server that is behind all others. While it catches up, theirs are not returned.
    lowest := (SELECT min(o.read_to) FROM snowflake_feed.member o WHERE o.feed = this.name AND o.problem IS NULL);

    -- All servers are asked before one is waited for. What a member does wrong is its own problem, and so is an error
    -- that it sends, whatever the SQLSTATE. Only a query that is canceled here ends the read.
    FOR m IN SELECT * FROM snowflake_feed.member o WHERE o.feed = this.name ORDER BY o.asked_at, o.server LOOP
        nth := cardinality(members) + 1;
        connection := snowflake_feed.connection(m.server, m.home);
        began := clock_timestamp();
        shares[nth] := CASE WHEN m.read_to > lowest THEN 1 ELSE max_rows END;
        asked[nth] := m.problem IS NULL OR began NOT BETWEEN m.asked_at AND m.retry_at;
        IF asked[nth] AND began > asks_until AND (connection = ANY (snowflake_feed.connections())) IS NOT TRUE THEN
            -- The next read asks it first, since asked_at remains.
            m.problem := coalesce(m.problem, 'server was not asked, since connecting to others took too long');
            m.problem_since := coalesce(m.problem_since, began);
        ELSIF asked[nth] THEN
            m.asked_at := began;
            m.problem := NULL;
            BEGIN
                PERFORM snowflake_feed.request(m.server, m.home, snowflake_feed.query(this, m, row_type, shares[nth]));
            EXCEPTION WHEN OTHERS OR query_canceled OR assert_failure THEN
                GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
                    context = PG_EXCEPTION_CONTEXT;
                IF SQLSTATE = '57014' AND strpos(context, connection) = 0 THEN
                    RAISE query_canceled USING MESSAGE = message,
                        DETAIL = format('It waited for server "%s".', m.server);
                END IF;
                m.problem := snowflake_feed.describe(message, detail);
            END;
        END IF;
        members[nth] := m;
        spent[nth] := clock_timestamp() - began;
    END LOOP;
    IF members = '{}' THEN
        RAISE EXCEPTION 'feed "%" has no servers', feed USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'Use snowflake_feed.add_server().';
    END IF;

    until := clock_timestamp() + interval '10 s';
    FOR nth IN 1..cardinality(members) LOOP
        m := members[nth];
        CONTINUE WHEN m.problem IS NOT NULL;
        connection := snowflake_feed.connection(m.server, m.home);
        began := clock_timestamp();
        -- Others can have used up the time, and what this one has sent is yet to be read.
        until := greatest(until, began + interval '1 s');
        BEGIN
            PERFORM snowflake_feed.await(connection, until);
            SELECT a INTO answer FROM snowflake_feed.answers(connection) a;
            PERFORM snowflake_feed.await(connection, until);
            -- dblink takes texts that are not valid in the encoding of the database: convert_to() does not.
            SELECT coalesce(array_agg(r.id), '{}'), coalesce(array_agg(r.content), '{}'),
                sum(length(convert_to(r.content, getdatabaseencoding()))), max(r.id)
                INTO got_ids, got_contents, size, last_id FROM snowflake_feed.rows_of(connection) r;
            PERFORM snowflake_feed.await(connection, until);
            PERFORM FROM snowflake_feed.answers(connection);
            -- mutant: feed-late-horizon
            told := snowflake_feed.learn(m, answer);
            IF told.horizon <= m.read_to AND told.horizon < m.horizon THEN
                -- The problem is over when the horizon is above again, and rows that were missed remain so.
                IF m.problem_since IS NULL THEN
                    RAISE WARNING 'horizon of server "%" has gone back', m.server USING DETAIL =
                        format('It is %s, and was %s. Rows may have been missed.', told.horizon, m.horizon);
                END IF;
                RAISE EXCEPTION 'horizon has gone back'
                    USING DETAIL = format('It is %s, and was %s. Rows may have been missed.', told.horizon, m.horizon);
            END IF;
            IF EXISTS (SELECT FROM unnest(got_ids, got_contents) AS r (id, content)
                WHERE r.id IS NULL OR r.id <= m.read_to OR r.content IS NULL)
                -- mutant: feed-as-many-as-asked
                OR (SELECT count(*) FROM unnest(got_ids) id WHERE id < last_id) >= shares[nth]
            THEN
                RAISE EXCEPTION 'server has sent what it was not asked for';
            END IF;
            -- An array has less than a gigabyte, and this one is for the rows of all.
            IF size > 900000000 / cardinality(members) THEN
                RAISE EXCEPTION 'rows of the server are too large' USING DETAIL = format('%s have %s bytes.',
                    cardinality(got_ids), size);
            END IF;
            -- Texts become rows here, where an error is a problem of their server, and once more at the end.
            EXECUTE format('SELECT count(content::%s) FROM unnest($1) content', row_type) USING got_contents;
            -- All of them or, if that fails, none.
            SELECT origins || array_fill(nth, ARRAY[cardinality(got_ids)]), ids || got_ids, contents || got_contents
                INTO origins, ids, contents;
            -- mutant: feed-full-answer
            bounds[nth] := CASE WHEN cardinality(got_ids) >= shares[nth] AND last_id < told.horizon THEN last_id + 1
                ELSE told.horizon END;
            m := told;
        EXCEPTION WHEN OTHERS OR query_canceled OR assert_failure THEN
            GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
                context = PG_EXCEPTION_CONTEXT;
            IF SQLSTATE = '57014' AND strpos(context, connection) = 0 THEN
                RAISE query_canceled USING MESSAGE = message,
                    DETAIL = format('It waited for server "%s".', m.server);
            END IF;
            m.problem := snowflake_feed.describe(message, detail);
        END;
        members[nth] := m;
        spent[nth] := spent[nth] + (clock_timestamp() - began);
    END LOOP;

    -- A server with a problem holds the feed up, unless the reader has lost patience: then its rows come later.
    FOR nth IN 1..cardinality(members) LOOP
        m := members[nth];
        IF m.problem IS NOT NULL
            AND (clock_timestamp() - coalesce(m.problem_since, m.asked_at) <= patience) IS NOT FALSE
        THEN
            bounds[nth] := m.read_to + 1;
        END IF;
    END LOOP;
    -- Below it, no server has a row that is not here: one that has sent as many as it was asked for has told how far.
    bound := (SELECT min(b) FROM unnest(bounds) b);
    SELECT coalesce(array_agg(u.origin), '{}'), coalesce(array_agg(u.id), '{}'), coalesce(array_agg(u.content), '{}')
        INTO origins, ids, contents
        FROM unnest(origins, ids, contents) AS u (origin, id, content) WHERE u.id < bound;

    FOR nth IN 1..cardinality(members) LOOP
        m := members[nth];
        IF asked[nth] AND m.problem IS NOT NULL THEN
            PERFORM snowflake_feed.close(m.server);
            -- So a server that is silent takes a fifth of the reader's time at most.
            m.retry_at := clock_timestamp() + 4 * spent[nth];
        END IF;
        -- mutant: feed-left-out
        IF bounds[nth] IS NOT NULL THEN
            -- mutant: feed-position
            m.read_to := greatest(m.read_to, bound - 1);
        END IF;
        UPDATE snowflake_feed.member o SET worker = m.worker, timeline = m.timeline, read_to = m.read_to,
            horizon = m.horizon, horizon_at = m.horizon_at, asked_at = m.asked_at, problem = m.problem,
            problem_since = CASE WHEN m.problem IS NOT NULL THEN coalesce(m.problem_since, m.asked_at) END,
            retry_at = m.retry_at
            WHERE o.feed = m.feed AND o.server = m.server;
    END LOOP;
    UPDATE snowflake_feed.feed f SET returned_to = greatest(f.returned_to, last.id)
        FROM (SELECT max(id) AS id FROM unnest(ids) id) last WHERE f.name = this.name AND last.id IS NOT NULL;
    RETURN QUERY EXECUTE format('SELECT ($1)[r.origin].server, r.id < $2, r.content::%s
        FROM unnest($3, $4, $5) AS r (origin, id, content) ORDER BY r.id, r.origin', row_type)
        USING members, this.returned_to, origins, ids, contents;
END $$;
COMMENT ON FUNCTION snowflake_feed.read_marked(anyelement, text, integer, interval) IS
    'as read(), with the server of each row, and whether a row with a greater ID was returned before: SELECT server, '
    'is_late, (content).* FROM snowflake_feed.read_marked(NULL::outbox, ''orders'')';

CREATE FUNCTION snowflake_feed.read(relation anyelement, feed text, max_rows integer DEFAULT 1000,
    patience interval DEFAULT NULL)
    RETURNS SETOF anyelement
    LANGUAGE sql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.content FROM snowflake_feed.read_marked(relation, feed, max_rows, patience) r
$$;
COMMENT ON FUNCTION snowflake_feed.read(anyelement, text, integer, interval) IS
    'new rows of all servers of a feed, in the order of their IDs, at most max_rows of each server and all others with '
    'its last ID, each once if the transaction that reads them commits: SELECT * FROM '
    'snowflake_feed.read(NULL::outbox, ''orders'')';
