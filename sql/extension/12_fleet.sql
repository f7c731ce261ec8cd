-- The servers of a fleet

-- Types instead of OUT parameters, which would make \df wider.
CREATE TYPE snowflake_identity AS (
    system_identifier bigint, datacenter_id integer, worker_id integer, worker_id_source text, state text, layout text,
    clock timestamptz, library_version text, in_recovery boolean);
COMMENT ON TYPE snowflake_identity IS 'row of snowflake_identity()';
COMMENT ON COLUMN snowflake_identity.system_identifier IS
    'as in pg_control_system(): equal for copies of one database cluster';
COMMENT ON COLUMN snowflake_identity.datacenter_id IS 'data center; NULL if the layout has none';
COMMENT ON COLUMN snowflake_identity.worker_id IS 'worker ID; NULL if there is none';
COMMENT ON COLUMN snowflake_identity.worker_id_source IS 'as in snowflake_status';
COMMENT ON COLUMN snowflake_identity.state IS 'as in snowflake_status';
COMMENT ON COLUMN snowflake_identity.layout IS 'spelled out, with its epoch; NULL if it is invalid';
COMMENT ON COLUMN snowflake_identity.clock IS 'what the clock of the server shows';
COMMENT ON COLUMN snowflake_identity.library_version IS 'version of the library, which can be newer than the extension';
COMMENT ON COLUMN snowflake_identity.in_recovery IS 'whether the server is a standby, or has not finished its recovery';

CREATE FUNCTION snowflake_identity() RETURNS snowflake_identity
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_identity_wrapper';
COMMENT ON FUNCTION snowflake_identity() IS
    'what tells this server from others: cluster, worker ID, layout, clock: SELECT * FROM snowflake_identity()';

CREATE TYPE snowflake_fleet_member AS (
    server integer, address text, state text, system_identifier bigint, datacenter_id integer, worker_id integer,
    layout text, clock_offset interval, problem text);
COMMENT ON TYPE snowflake_fleet_member IS 'row of snowflake_check_fleet(servers)';
COMMENT ON COLUMN snowflake_fleet_member.server IS
    'its number in the array, from 1 on; 0 for this server';
COMMENT ON COLUMN snowflake_fleet_member.address IS
    'name of the foreign server; or host and port of the connection string, or its service';
COMMENT ON COLUMN snowflake_fleet_member.layout IS 'NULL if the library is not preloaded there';
COMMENT ON COLUMN snowflake_fleet_member.clock_offset IS
    'how far its clock is ahead of this server''s, give or take half of the round trip';
COMMENT ON COLUMN snowflake_fleet_member.problem IS 'what is wrong; NULL if nothing is';

-- Not for PUBLIC: it connects from this server, as dblink does. PARALLEL UNSAFE, since it may rename its session. Not
-- STRICT: a fleet of which nobody was asked would look sound, so NULL is an error.
CREATE FUNCTION snowflake_check_fleet(servers text[]) RETURNS SETOF snowflake_fleet_member
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'snowflake_check_fleet_wrapper';
COMMENT ON FUNCTION snowflake_check_fleet(text[]) IS
    'ask other servers who they are, by names of foreign servers or by connection strings: SELECT * FROM '
    'snowflake_check_fleet(''{pg-2, host=pg-3 dbname=postgres}''); a row for this server, and one for each of them, '
    'with what is wrong';
-- mutant: fleet-access
REVOKE ALL ON FUNCTION snowflake_check_fleet(text[]) FROM PUBLIC;

CREATE TYPE snowflake_life AS (
    number bigint, life text, is_own boolean, datacenter_id integer, worker_id integer, layout text,
    started_at timestamptz,
    reason text, begins_at timestamptz, reserved_until timestamptz, state text, ended_at timestamptz);
COMMENT ON TYPE snowflake_life IS 'row of snowflake_lives()';
COMMENT ON COLUMN snowflake_life.number IS 'counts the lives in a data directory, of which the last 512 are kept';
COMMENT ON COLUMN snowflake_life.life IS 'random number of the life';
COMMENT ON COLUMN snowflake_life.is_own IS
    'whether it is a life of this server, and not of the one that its data directory was copied from';
COMMENT ON COLUMN snowflake_life.started_at IS 'what the clock of the server showed when the life began';
COMMENT ON COLUMN snowflake_life.reason IS
    'why its IDs began where they did: restart, promotion or recovery, no mark, mark in WAL, lease, other worker, and '
    'others';
COMMENT ON COLUMN snowflake_life.begins_at IS 'no ID of the life has an earlier time';
COMMENT ON COLUMN snowflake_life.reserved_until IS
    'no ID of the life has this time or a later one; if it runs or was stopped, the end of the last ID';
COMMENT ON COLUMN snowflake_life.state IS
    'running; stopped; crashed; mark lost (crashed, and its mark was not found afterwards); given away (its server '
    'continued with another worker or lease); unknown (only its own server knows)';
COMMENT ON COLUMN snowflake_life.ended_at IS 'what the clock of the server showed; NULL after a crash';

CREATE FUNCTION snowflake_lives() RETURNS SETOF snowflake_life
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE ROWS 50 AS 'MODULE_PATHNAME', 'snowflake_lives_wrapper';
COMMENT ON FUNCTION snowflake_lives() IS
    'when this server issued IDs, and of which worker; a row for each of its lives: SELECT * FROM snowflake_lives()';

CREATE FUNCTION snowflake_lives_for_servers(known_version integer) RETURNS SETOF jsonb
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE ROWS 50 AS 'MODULE_PATHNAME', 'snowflake_lives_for_servers_wrapper';
COMMENT ON FUNCTION snowflake_lives_for_servers(integer) IS
    'not to be called: what snowflake_audit_fleet() of another server reads; known_version is the newest version of '
    'this that it knows';

CREATE TYPE snowflake_audit_finding AS (
    result text, datacenter_id integer, worker_id integer, layout text, lives bigint, begins_at timestamptz,
    ends_at timestamptz, detail text);
COMMENT ON TYPE snowflake_audit_finding IS 'row of snowflake_audit_fleet(servers)';
COMMENT ON COLUMN snowflake_audit_finding.result IS
    'no overlap; overlap: IDs can have been issued twice; possible overlap: only if a life used all that it had '
    'reserved; not seen: these servers cannot tell';
COMMENT ON COLUMN snowflake_audit_finding.worker_id IS 'NULL in the first row, which is about all workers';
COMMENT ON COLUMN snowflake_audit_finding.lives IS 'how many lives were compared';
COMMENT ON COLUMN snowflake_audit_finding.begins_at IS
    'time of their first ID, or of the first possible duplicate';
COMMENT ON COLUMN snowflake_audit_finding.ends_at IS 'end of their IDs, or of the possible duplicates';
COMMENT ON COLUMN snowflake_audit_finding.detail IS
    'which lives overlap, and where their IDs are; or what could not be seen';

-- Not for PUBLIC, as snowflake_check_fleet().
CREATE FUNCTION snowflake_audit_fleet(servers text[]) RETURNS SETOF snowflake_audit_finding
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'snowflake_audit_fleet_wrapper';
COMMENT ON FUNCTION snowflake_audit_fleet(text[]) IS
    'whether two servers have issued the same IDs, by what they know of their lives: SELECT * FROM '
    'snowflake_audit_fleet(''{pg-2, host=pg-3 dbname=postgres}''); the first row is the answer';
-- mutant: audit-access
REVOKE ALL ON FUNCTION snowflake_audit_fleet(text[]) FROM PUBLIC;

-- VOLATILE, since the server issues IDs meanwhile.
CREATE FUNCTION snowflake_issued_elsewhere(id bigint) RETURNS boolean
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_issued_elsewhere_wrapper';
COMMENT ON FUNCTION snowflake_issued_elsewhere(bigint) IS
    'true if an ID has the worker ID of this server, and this server has not issued it; false proves nothing; NULL on '
    'a server that issues no IDs';
