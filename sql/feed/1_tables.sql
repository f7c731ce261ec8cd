-- Feeds, and the servers whose rows they return
CREATE SCHEMA snowflake_feed;

CREATE TABLE snowflake_feed.feed (
    name text PRIMARY KEY,
    source text NOT NULL,
    column_name name NOT NULL);
COMMENT ON TABLE snowflake_feed.feed IS 'feeds; use create() and drop()';
COMMENT ON COLUMN snowflake_feed.feed.source IS 'the table on the servers, with its schema';
COMMENT ON COLUMN snowflake_feed.feed.column_name IS 'the column of the IDs';

CREATE TABLE snowflake_feed.member (
    feed text NOT NULL REFERENCES snowflake_feed.feed,
    server name NOT NULL,
    system_identifier bigint NOT NULL,
    layout text NOT NULL,
    worker text,
    functions name NOT NULL,
    read_to bigint NOT NULL,
    horizon bigint,
    horizon_at timestamptz,
    asked_at timestamptz,
    problem text,
    problem_since timestamptz,
    PRIMARY KEY (feed, server));
COMMENT ON TABLE snowflake_feed.member IS 'servers of feeds; use add_server() and drop_server()';
COMMENT ON COLUMN snowflake_feed.member.functions IS 'the schema of snowflake_pg on it';
COMMENT ON COLUMN snowflake_feed.member.system_identifier IS
    'as it was when the server was added, which a failover keeps';
COMMENT ON COLUMN snowflake_feed.member.read_to IS 'all its rows up to this ID have been returned';

CREATE VIEW snowflake_feed.servers AS
    SELECT feed, server, horizon, read_to, asked_at - horizon_at AS behind, problem, problem_since
    FROM snowflake_feed.member;
COMMENT ON VIEW snowflake_feed.servers IS 'how far each server of a feed has been read, and what holds it up';
COMMENT ON COLUMN snowflake_feed.servers.horizon IS 'the last that the server has said: it issues nothing below';
COMMENT ON COLUMN snowflake_feed.servers.read_to IS 'all its rows up to this ID have been returned';
COMMENT ON COLUMN snowflake_feed.servers.behind IS
    'how far its horizon was behind the clock of the reader: a clock that is behind, or a transaction that has not '
    'ended';
COMMENT ON COLUMN snowflake_feed.servers.problem IS 'why it holds the feed up; NULL if it does not';

SELECT pg_catalog.pg_extension_config_dump('snowflake_feed.feed'::regclass, ''::text);
SELECT pg_catalog.pg_extension_config_dump('snowflake_feed.member'::regclass, ''::text);
