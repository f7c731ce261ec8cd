-- The servers of a fleet

-- Types instead of OUT parameters, which would make \df wider.
CREATE TYPE snowflake_server AS (
    system_identifier bigint, datacenter_id integer, worker_id integer, worker_id_source text, state text, layout text,
    clock timestamptz, version text, in_recovery boolean);
COMMENT ON TYPE snowflake_server IS 'row of snowflake_server()';
COMMENT ON COLUMN snowflake_server.system_identifier IS
    'as in pg_control_system(): equal for copies of one database cluster';
COMMENT ON COLUMN snowflake_server.datacenter_id IS 'data center; NULL if there is none';
COMMENT ON COLUMN snowflake_server.worker_id IS 'worker ID; NULL if there is none';
COMMENT ON COLUMN snowflake_server.worker_id_source IS 'as in snowflake_status';
COMMENT ON COLUMN snowflake_server.state IS 'as in snowflake_status';
COMMENT ON COLUMN snowflake_server.layout IS 'spelled out, with its epoch; NULL if it is invalid';
COMMENT ON COLUMN snowflake_server.clock IS 'what the clock of the server shows';
COMMENT ON COLUMN snowflake_server.version IS 'version of the library, which can be newer than the extension';
COMMENT ON COLUMN snowflake_server.in_recovery IS 'whether the server is a standby, or has not finished its recovery';

CREATE FUNCTION snowflake_server() RETURNS snowflake_server
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_server_wrapper';
COMMENT ON FUNCTION snowflake_server() IS
    'what tells this server from others: cluster, worker ID, layout, clock: SELECT * FROM snowflake_server()';

CREATE TYPE snowflake_fleet_member AS (
    server integer, address text, state text, system_identifier bigint, datacenter_id integer, worker_id integer,
    layout text, clock_offset interval, problem text);
COMMENT ON TYPE snowflake_fleet_member IS 'row of snowflake_check_fleet(conninfo)';
COMMENT ON COLUMN snowflake_fleet_member.server IS
    'number of its connection string, from 1 on; 0 for this server';
COMMENT ON COLUMN snowflake_fleet_member.address IS
    'host and port of the connection string, or its service';
COMMENT ON COLUMN snowflake_fleet_member.layout IS 'NULL if the library is not preloaded there';
COMMENT ON COLUMN snowflake_fleet_member.clock_offset IS
    'how far its clock is ahead of this server''s, give or take half of the round trip';
COMMENT ON COLUMN snowflake_fleet_member.problem IS 'what is wrong; NULL if nothing is';

-- Not for PUBLIC: it connects from this server, as dblink does. PARALLEL UNSAFE, since it may rename its session. Called without
-- an argument, it raises an error that shows a call.
CREATE FUNCTION snowflake_check_fleet(conninfo text[] DEFAULT NULL) RETURNS SETOF snowflake_fleet_member
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'snowflake_check_fleet_wrapper';
COMMENT ON FUNCTION snowflake_check_fleet(text[]) IS
    'asks other servers who they are, by connection strings: SELECT * FROM snowflake_check_fleet(ARRAY[''host=pg-2 dbname=postgres'']); a row for this server and one for each of them, with what is wrong';
-- mutant: fleet-access
REVOKE ALL ON FUNCTION snowflake_check_fleet(text[]) FROM PUBLIC;

-- VOLATILE, since the server issues IDs meanwhile.
CREATE FUNCTION snowflake_issued_elsewhere(id bigint) RETURNS boolean
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_issued_elsewhere_wrapper';
COMMENT ON FUNCTION snowflake_issued_elsewhere(bigint) IS
    'true if an ID has the worker ID of this server, and this server has not issued it; false proves nothing; NULL on a server that issues no IDs';
