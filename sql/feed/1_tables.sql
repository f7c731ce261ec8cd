-- One feed of the rows of several servers of snowflake_pg: plain SQL over dblink, for a database of PostgreSQL 15 or
-- newer, which needs neither the library nor the extension snowflake_pg. `make install` joins the files of this folder
-- into the script of the extension snowflake_feed, and `make pack NAME=scripts` into one for psql, with script.psql.
--
-- Below its horizon, a server has no row that a later statement of that session would not see. So a reader that knows
-- the horizons of all servers, and then reads their rows, has all rows below the lowest. It returns these alone.

CREATE SCHEMA snowflake_feed;

CREATE TABLE snowflake_feed.feed (
    name text PRIMARY KEY,
    source text NOT NULL,
    column_name name NOT NULL,
    returned_to bigint NOT NULL DEFAULT 0);
COMMENT ON TABLE snowflake_feed.feed IS 'feeds; use create() and drop()';
COMMENT ON COLUMN snowflake_feed.feed.source IS 'table on the servers, with its schema';
COMMENT ON COLUMN snowflake_feed.feed.column_name IS 'column of the IDs';
COMMENT ON COLUMN snowflake_feed.feed.returned_to IS 'greatest ID that was returned: rows below are late';

CREATE TABLE snowflake_feed.member (
    feed text NOT NULL REFERENCES snowflake_feed.feed,
    server name NOT NULL,
    home name,
    system_identifier bigint NOT NULL,
    database oid NOT NULL,
    timeline text,
    layout text NOT NULL,
    worker text,
    read_to bigint NOT NULL,
    horizon bigint,
    horizon_at timestamptz,
    asked_at timestamptz,
    problem text,
    problem_since timestamptz,
    retry_at timestamptz,
    PRIMARY KEY (feed, server));
COMMENT ON TABLE snowflake_feed.member IS 'servers of feeds; use add_server() and drop_server()';
COMMENT ON COLUMN snowflake_feed.member.home IS
    'schema of the functions in plain SQL on a hosted database; NULL if the server has the extension snowflake_pg';
COMMENT ON COLUMN snowflake_feed.member.system_identifier IS
    'as it was when the server was added or accepted; a failover keeps it, and the database''s OID';
COMMENT ON COLUMN snowflake_feed.member.timeline IS
    'of WAL, the highest it has had; NULL if it is hosted, or has always been a standby';
COMMENT ON COLUMN snowflake_feed.member.worker IS 'worker ID when it was last asked, below a data center''s';
COMMENT ON COLUMN snowflake_feed.member.read_to IS 'all its rows up to this ID have been returned';
COMMENT ON COLUMN snowflake_feed.member.retry_at IS 'while it has a problem, it is not asked before this time';

CREATE VIEW snowflake_feed.servers AS
    SELECT feed, server, horizon, read_to, asked_at, asked_at - horizon_at AS behind, problem, problem_since
    FROM snowflake_feed.member;
COMMENT ON VIEW snowflake_feed.servers IS
    'how far each server of a feed has been read, and what holds the feed up: a problem, or the lowest horizon';
COMMENT ON COLUMN snowflake_feed.servers.horizon IS 'ID below which it has no new rows, when it was last asked';
COMMENT ON COLUMN snowflake_feed.servers.read_to IS 'all its rows up to this ID have been returned';
COMMENT ON COLUMN snowflake_feed.servers.asked_at IS 'when it was last asked';
COMMENT ON COLUMN snowflake_feed.servers.behind IS
    'how far its horizon was behind the reader''s clock when it was last asked: by a transaction that has not ended, '
    'or a clock';
COMMENT ON COLUMN snowflake_feed.servers.problem IS 'why it cannot be read; NULL if it can';
COMMENT ON COLUMN snowflake_feed.servers.problem_since IS 'when it was first asked in vain';

-- A dump has the rows of an extension's tables only if the extension says so.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'snowflake_feed'::name) THEN
        PERFORM pg_catalog.pg_extension_config_dump('snowflake_feed.feed'::regclass, ''::text);
        PERFORM pg_catalog.pg_extension_config_dump('snowflake_feed.member'::regclass, ''::text);
    END IF;
END $$;

CREATE FUNCTION snowflake_feed.lock(feed text) RETURNS snowflake_feed.feed
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    this snowflake_feed.feed;
BEGIN
    SELECT * INTO this FROM snowflake_feed.feed f WHERE f.name = feed FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'feed "%" does not exist', feed USING ERRCODE = 'undefined_object',
            HINT = 'Use snowflake_feed.create().';
    END IF;
    RETURN this;
END $$;
COMMENT ON FUNCTION snowflake_feed.lock(text) IS
    'not to be called: a feed, which nobody else reads or changes until the transaction ends';
