-- Reading by ID

CREATE FUNCTION snowflake_horizon_support(internal) RETURNS internal
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_horizon_support_wrapper';
COMMENT ON FUNCTION snowflake_horizon_support(internal) IS
    'not to be called: planner support for snowflake_horizon(); refuses queries that read a table, which would not see '
    'all rows below the horizon';

CREATE FUNCTION snowflake_horizon() RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE SUPPORT snowflake_horizon_support
    AS 'MODULE_PATHNAME', 'snowflake_horizon_wrapper';
COMMENT ON FUNCTION snowflake_horizon() IS
    'ID below which no row can appear any more: every transaction of this server, or on a standby of its primary, that '
    'has drawn a smaller ID has ended; NULL while it is not known; read it in a statement before the query';

-- Not STRICT: the first argument is NULL, and only its type counts; and no column means the primary key.
CREATE FUNCTION snowflake_poll(
    relation anyelement, after bigint, max_rows integer DEFAULT 1000, column_name name DEFAULT NULL,
    wait interval DEFAULT NULL)
        RETURNS SETOF anyelement
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1000 AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION snowflake_poll(anyelement, bigint, integer, name, interval) IS
    'rows of a table after an ID, in order and below the horizon, so a reader that continues after the last one misses '
    'none; waits for rows, if asked to: SELECT * FROM snowflake_poll(NULL::orders, 0, wait => ''10 s'')';

CREATE FUNCTION snowflake_get_writers() RETURNS SETOF record
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE ROWS 10 AS 'MODULE_PATHNAME', 'snowflake_get_writers_wrapper';
COMMENT ON FUNCTION snowflake_get_writers() IS
    'not to be called: use the view snowflake_writers';

CREATE VIEW snowflake_writers AS
    SELECT pid, gid, first_id,
        least(coalesce(greatest(snowflake_timestamp(first_id), xact_start), prepared),
            clock_timestamp()) AS first_id_at,
           coalesce(datname, database) AS datname, coalesce(usename, owner) AS usename, application_name, state,
           xact_start, query
    FROM snowflake_get_writers() AS writers(pid integer, transaction xid, first_id bigint)
        LEFT JOIN pg_stat_activity USING (pid)
        LEFT JOIN pg_prepared_xacts USING (transaction)
    ORDER BY first_id NULLS FIRST;
GRANT SELECT ON snowflake_writers TO PUBLIC;
COMMENT ON VIEW snowflake_writers IS
    'transactions that have drawn IDs and have not ended: the first one holds back snowflake_horizon()';
COMMENT ON COLUMN snowflake_writers.pid IS 'process ID; NULL for a prepared transaction';
COMMENT ON COLUMN snowflake_writers.gid IS 'name of a prepared transaction';
COMMENT ON COLUMN snowflake_writers.first_id IS
    'first ID that the transaction has drawn, without its tag, or a bound below it; NULL if it was prepared before the '
    'server started: then the horizon stays where it was in WAL until it ends';
COMMENT ON COLUMN snowflake_writers.first_id_at IS
    'when it has drawn the ID; if first_id is NULL, when the transaction was prepared';
