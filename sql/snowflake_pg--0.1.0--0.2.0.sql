-- From 0.1.0 to 0.2.0. tests/upgrades holds what this makes beside what CREATE EXTENSION does.

\echo Use "ALTER EXTENSION snowflake_pg UPDATE" to load this file. \quit

-- Until the server is restarted, it has the old library, which lacks the new functions.
DO $$
DECLARE
    loaded text := (SELECT version FROM snowflake_identity());
BEGIN
    IF string_to_array(loaded, '.')::integer[] < '{0,2,0}' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('library snowflake_pg %s is too old for version 0.2.0 of the extension', loaded),
            HINT = 'Install the new version and restart the server first.';
    END IF;
END
$$;

-- The same function. Rails' fixtures and others take a default with "nextval" in it for one with a sequence.
CREATE FUNCTION snowflake_id() RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE SUPPORT snowflake_nextval_support
    AS 'MODULE_PATHNAME', 'snowflake_nextval';
COMMENT ON FUNCTION snowflake_id() IS
    'next ID: snowflake_nextval() by another name, for tools that take "nextval" in a default for a sequence';

CREATE FUNCTION snowflake_nextblock(count integer, OUT first bigint, OUT last bigint)
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_nextblock_wrapper';
COMMENT ON FUNCTION snowflake_nextblock(integer) IS
    'first and last of so many adjacent IDs of one tick, for clients that count by themselves; at most as many as a tick has, 4096 in layout twitter';

-- PARALLEL RESTRICTED: a worker of a parallel query has a last ID of its own.
CREATE FUNCTION snowflake_lastval() RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'snowflake_lastval_wrapper';
COMMENT ON FUNCTION snowflake_lastval() IS
    'last ID that this session has taken, as lastval() is for sequences';

CREATE FUNCTION snowflake_get_health() RETURNS record
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_get_health_wrapper';
COMMENT ON FUNCTION snowflake_get_health() IS
    'not to be called: use the view snowflake_status';

CREATE OR REPLACE VIEW snowflake_status AS
    SELECT status.*,
           CASE WHEN pg_has_role('pg_read_all_settings', 'USAGE')
                THEN current_setting('snowflake_pg.state_directory', true) END AS state_directory,
           health.*,
           (SELECT extversion FROM pg_extension WHERE extname = 'snowflake_pg') AS extension_version
    FROM snowflake_get_status() AS status(
        state text, worker_id integer, worker_id_source text, datacenter_id integer, layout text,
        clock_regression text, sequence_exhaustion text, sequence_start text,
        max_borrow interval, max_wait interval, reserve_ahead interval,
        last_issued_at timestamptz, lead interval, durable_mark timestamptz, usable_until timestamptz,
        lease_until timestamptz, clock_offset interval, registry_error text,
        ids_issued bigint, ticks_exhausted bigint, borrowed_ids bigint, history_ids bigint,
        clock_regressions bigint, largest_regression interval, last_regression_at timestamptz,
        waits bigint, wait_time interval, refusals bigint,
        mark_extensions bigint, mark_wait_time interval, stats_reset timestamptz),
        snowflake_get_health() AS health(
        problem_sqlstate text, problem text, keeper_pid integer,
        last_refusal_at timestamptz, last_refusal_sqlstate text, last_refusal text,
        ids_per_second bigint, busiest_second bigint, mark_left interval, library_version text);
COMMENT ON COLUMN snowflake_status.problem_sqlstate IS
    'SQLSTATE of what keeps this server from issuing IDs, or of what its background worker fails to do; NULL if nothing is wrong';
COMMENT ON COLUMN snowflake_status.problem IS
    'its message, details and hint; NULL unless the user may read all settings';
COMMENT ON COLUMN snowflake_status.keeper_pid IS
    'process ID of the background worker that writes the durable mark; NULL if it does not run: calls then write the mark themselves, except to WAL';
COMMENT ON COLUMN snowflake_status.last_refusal_at IS 'when a call counted in refusals failed last';
COMMENT ON COLUMN snowflake_status.last_refusal_sqlstate IS 'SQLSTATE of its error';
COMMENT ON COLUMN snowflake_status.last_refusal IS
    'its message, details and hint; NULL unless the user may read all settings';
COMMENT ON COLUMN snowflake_status.ids_per_second IS 'most IDs that this server can issue in a second, by its layout';
COMMENT ON COLUMN snowflake_status.busiest_second IS
    'most IDs with timestamps of one second since stats_reset, without those of history';
COMMENT ON COLUMN snowflake_status.mark_left IS
    'how far the durable mark is ahead of the clock; NULL unless IDs were issued within snowflake_pg.keep_warm';
COMMENT ON COLUMN snowflake_status.library_version IS 'version of the library that the server has loaded';
COMMENT ON COLUMN snowflake_status.extension_version IS
    'version of the extension in this database; ALTER EXTENSION snowflake_pg UPDATE brings it to that of the library';
COMMENT ON COLUMN snowflake_status.refusals IS 'calls for IDs that failed with an error of this extension';

-- For exporters, which drop intervals and texts without an error. Seconds and points in time, in Unix seconds, are double precision.
CREATE VIEW snowflake_metrics AS
    SELECT (state IN ('ready', 'idle'))::integer::bigint AS can_issue,
           (state IN ('standby', 'shared worker'))::integer::bigint AS is_standby,
           datacenter_id::bigint, worker_id::bigint,
           (keeper_pid IS NOT NULL)::integer::bigint AS keeper_running, keeper_pid::bigint,
           ids_issued, ids_per_second, busiest_second,
           busiest_second / ids_per_second::double precision AS busiest_second_share,
           ticks_exhausted, borrowed_ids, history_ids,
           extract(epoch FROM last_issued_at)::double precision AS last_issued_at,
           extract(epoch FROM lead)::double precision AS lead_seconds,
           extract(epoch FROM durable_mark)::double precision AS durable_mark,
           extract(epoch FROM mark_left)::double precision AS mark_left_seconds,
           mark_extensions, extract(epoch FROM mark_wait_time)::double precision AS mark_wait_seconds,
           clock_regressions, extract(epoch FROM largest_regression)::double precision AS largest_regression_seconds,
           extract(epoch FROM last_regression_at)::double precision AS last_regression_at,
           waits, extract(epoch FROM wait_time)::double precision AS wait_seconds,
           refusals, extract(epoch FROM last_refusal_at)::double precision AS last_refusal_at,
           extract(epoch FROM lease_until - clock_timestamp())::double precision AS lease_left_seconds,
           extract(epoch FROM clock_offset)::double precision AS clock_offset_seconds,
           (extract(epoch FROM usable_until - clock_timestamp()) / (365.2425 * 86400))::double precision AS years_left,
           (library_version <> extension_version)::integer::bigint AS versions_differ,
           extract(epoch FROM stats_reset)::double precision AS stats_reset
    FROM snowflake_status;
GRANT SELECT ON snowflake_metrics TO PUBLIC;
COMMENT ON VIEW snowflake_metrics IS
    'snowflake_status as numbers, for exporters of metrics: times in Unix seconds, lengths of time in seconds';
COMMENT ON COLUMN snowflake_metrics.can_issue IS '1 if state is ready or idle, else 0';
COMMENT ON COLUMN snowflake_metrics.is_standby IS '1 if state is standby or shared worker, else 0';
COMMENT ON COLUMN snowflake_metrics.keeper_running IS '1 if the background worker that writes the durable mark runs, else 0';
COMMENT ON COLUMN snowflake_metrics.busiest_second_share IS
    'busiest_second as a part of ids_per_second: 1 is the limit of the layout';
COMMENT ON COLUMN snowflake_metrics.lease_left_seconds IS 'until lease_until, by the clock of this server';
COMMENT ON COLUMN snowflake_metrics.years_left IS 'until usable_until, in years of 365.2425 days';
COMMENT ON COLUMN snowflake_metrics.versions_differ IS
    '1 if library_version and extension_version differ: run ALTER EXTENSION snowflake_pg UPDATE, or restart the server';

-- Types instead of OUT parameters, which would make \df wider.
CREATE TYPE snowflake_partition AS (
    partition regclass, since timestamptz, until timestamptz, rows bigint, bytes bigint);
COMMENT ON TYPE snowflake_partition IS 'row of snowflake_partitions()';
COMMENT ON COLUMN snowflake_partition.since IS 'first timestamp; NULL for a default partition';
COMMENT ON COLUMN snowflake_partition.until IS 'end, which is the first timestamp of the next partition; NULL for a default partition';
COMMENT ON COLUMN snowflake_partition.rows IS 'as ANALYZE has estimated them; NULL if it never has';
COMMENT ON COLUMN snowflake_partition.bytes IS 'size with indexes and TOAST';

CREATE FUNCTION snowflake_partitions(parent regclass) RETURNS SETOF snowflake_partition
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE ROWS 100 AS 'MODULE_PATHNAME', 'snowflake_partitions_wrapper';
COMMENT ON FUNCTION snowflake_partitions(regclass) IS
    'partitions of a table that is partitioned by range of its ID: from when until when, rows and size; a default partition is last';

CREATE FUNCTION snowflake_partitions(parent regclass, layout text) RETURNS SETOF snowflake_partition
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE ROWS 100 AS 'MODULE_PATHNAME', 'snowflake_partitions_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_partitions(regclass, text) IS
    'partitions of a table that is partitioned by range of IDs of this layout';

CREATE TYPE snowflake_old_partition AS (
    command text, partition text, since timestamptz, until timestamptz, rows bigint, bytes bigint);
COMMENT ON TYPE snowflake_old_partition IS 'row of snowflake_drop_partitions(); columns but for command as in snowflake_partition';
COMMENT ON COLUMN snowflake_old_partition.command IS 'to be run, or with dry_run false, run';
COMMENT ON COLUMN snowflake_old_partition.partition IS 'name with that of its schema, since the table may be gone';

CREATE FUNCTION snowflake_drop_partitions(parent regclass, before timestamptz, dry_run boolean DEFAULT true)
    RETURNS SETOF snowflake_old_partition
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 10
    AS 'MODULE_PATHNAME', 'snowflake_drop_partitions_wrapper';
COMMENT ON FUNCTION snowflake_drop_partitions(regclass, timestamptz, boolean) IS
    'commands for \gexec that detach and drop the partitions that end before a time, while readers and writers continue; with dry_run false, drops them at once';

CREATE FUNCTION snowflake_drop_partitions(parent regclass, before timestamptz, dry_run boolean, layout text)
    RETURNS SETOF snowflake_old_partition
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 10
    AS 'MODULE_PATHNAME', 'snowflake_drop_partitions_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_drop_partitions(regclass, timestamptz, boolean, text) IS
    'commands that detach and drop the partitions that end before a time, by IDs of this layout';
