-- Monitoring

CREATE FUNCTION snowflake_get_status() RETURNS record
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_get_status_wrapper';
COMMENT ON FUNCTION snowflake_get_status() IS
    'not to be called: use the view snowflake_status';

CREATE VIEW snowflake_status AS
    SELECT * FROM snowflake_get_status() AS status(
        state text, problem text, problem_sqlstate text,
        worker_id integer, worker_id_source text, datacenter_id integer, layout text, usable_until timestamptz,
        max_ids_per_second bigint,
        last_issued_at timestamptz, lead interval, horizon_at timestamptz, durable_mark timestamptz,
        mark_left interval, keeper_pid integer,
        clones_detected_by text, clones_undetected_because text,
        lease_until timestamptz, clock_offset interval, registry_error text,
        stats_reset_at timestamptz, ids_issued bigint, busiest_second_ids bigint, ticks_exhausted bigint,
        borrowed_ids bigint,
        history_ids bigint, clock_regressions bigint, largest_regression interval, last_regression_at timestamptz,
        clock_waits bigint, clock_wait_time interval, mark_extensions bigint, mark_wait_time interval,
        refusals bigint, last_refusal text, last_refusal_sqlstate text, last_refusal_at timestamptz,
        library_version text, extension_version text);
GRANT SELECT ON snowflake_status TO PUBLIC;
COMMENT ON VIEW snowflake_status IS
    'one row about this server: its state, durable mark, and counters';
COMMENT ON COLUMN snowflake_status.state IS
    'ready, or idle if no ID was issued since the server started; others are in docs/operations.md';
COMMENT ON COLUMN snowflake_status.problem IS
    'why no ID is issued, or what the background worker fails to do, and what to do; NULL if nothing is wrong, or '
    'unless the user may read all settings';
COMMENT ON COLUMN snowflake_status.problem_sqlstate IS 'its SQLSTATE; NULL if nothing is wrong';
COMMENT ON COLUMN snowflake_status.worker_id IS 'worker ID of this server; NULL if there is none';
COMMENT ON COLUMN snowflake_status.worker_id_source IS 
    'configuration; registry; hostname (and its name: hostname pg-3); env (and the variable); file (and its path); '
    'ipv4 (and the address); citus (and the database): where it comes from';
COMMENT ON COLUMN snowflake_status.datacenter_id IS 'data center of this server; NULL if the layout has none';
COMMENT ON COLUMN snowflake_status.layout IS 'layout of this server, spelled out';
COMMENT ON COLUMN snowflake_status.usable_until IS 'last timestamp of the layout';
COMMENT ON COLUMN snowflake_status.max_ids_per_second IS 'most IDs that the layout lets this server issue in a second';
COMMENT ON COLUMN snowflake_status.last_issued_at IS
    'timestamp of the last ID, or when the horizon was read later; NULL if none was issued since the server started';
COMMENT ON COLUMN snowflake_status.lead IS
    'how far last_issued_at is ahead of the clock; 0 unless the clock has gone back or the server has just started';
COMMENT ON COLUMN snowflake_status.horizon_at IS
    'timestamp of the horizon, up to which readers by ID get all rows; on a standby, how complete it is; NULL if it is '
    'not known';
COMMENT ON COLUMN snowflake_status.durable_mark IS
    'time on disk that no ID reaches, and at which IDs continue after a crash';
COMMENT ON COLUMN snowflake_status.mark_left IS
    'how far the durable mark is ahead of the clock; NULL unless IDs were issued within the last minute';
COMMENT ON COLUMN snowflake_status.keeper_pid IS
    'process ID of the background worker that writes the durable mark; NULL if it does not run: calls then write the '
    'mark themselves, except to WAL';
COMMENT ON COLUMN snowflake_status.clones_detected_by IS
    'vmclock or none: how this server notices that its machine was cloned';
COMMENT ON COLUMN snowflake_status.clones_undetected_because IS
    'why it would not notice that; NULL if it would, or unless the user may read all settings';
COMMENT ON COLUMN snowflake_status.lease_until IS
    'when IDs end unless the registry renews the lease; NULL without a registry';
COMMENT ON COLUMN snowflake_status.clock_offset IS
    'how far the clock was ahead of the registry''s when they were compared last; NULL without a registry';
COMMENT ON COLUMN snowflake_status.registry_error IS
    'what went wrong with the registry last; NULL if nothing did, or unless the user may read all settings';
COMMENT ON COLUMN snowflake_status.stats_reset_at IS
    'since when the counters below count: the start of the server, its last crash, or snowflake_reset_stats()';
COMMENT ON COLUMN snowflake_status.ids_issued IS 'IDs issued';
COMMENT ON COLUMN snowflake_status.busiest_second_ids IS
    'most IDs with timestamps of one second, without history_ids';
COMMENT ON COLUMN snowflake_status.ticks_exhausted IS 'ticks whose last sequence number was issued';
COMMENT ON COLUMN snowflake_status.borrowed_ids IS 'IDs with a timestamp ahead of the clock';
COMMENT ON COLUMN snowflake_status.history_ids IS 'IDs issued in past ticks, with clock_regression = history';
COMMENT ON COLUMN snowflake_status.clock_regressions IS 'how often the clock has gone back';
COMMENT ON COLUMN snowflake_status.largest_regression IS 'how far it went back at most';
COMMENT ON COLUMN snowflake_status.last_regression_at IS 'what the clock showed after it had last gone back';
COMMENT ON COLUMN snowflake_status.clock_waits IS
    'how often calls waited for the clock: for the next tick, or to catch up';
COMMENT ON COLUMN snowflake_status.clock_wait_time IS 'total time of these waits';
COMMENT ON COLUMN snowflake_status.mark_extensions IS 'how often the durable mark was written';
COMMENT ON COLUMN snowflake_status.mark_wait_time IS 'total time for which calls waited for these writes';
COMMENT ON COLUMN snowflake_status.refusals IS 'calls for IDs that failed with an error of this extension';
COMMENT ON COLUMN snowflake_status.last_refusal IS
    'error of the last of them, and what to do; NULL unless the user may read all settings';
COMMENT ON COLUMN snowflake_status.last_refusal_sqlstate IS 'its SQLSTATE';
COMMENT ON COLUMN snowflake_status.last_refusal_at IS 'when that call failed';
COMMENT ON COLUMN snowflake_status.library_version IS 'version of the library that the server has loaded';
COMMENT ON COLUMN snowflake_status.extension_version IS
    'version of the extension in this database; ALTER EXTENSION snowflake_pg UPDATE brings it to the version of the '
    'library';

-- For exporters, which drop intervals and texts without an error: every column is bigint or double precision, by the
-- name of its metric without the prefix.
CREATE VIEW snowflake_metrics AS
    SELECT coalesce(datacenter_id, 0)::bigint AS datacenter_id, worker_id::bigint,
           (state IN ('ready', 'idle')
            AND (problem_sqlstate IS NULL
                OR coalesce(durable_mark > clock_timestamp(), false)))::integer::bigint AS can_issue,
           pg_catalog.pg_is_in_recovery()::integer::bigint AS is_standby,
           (keeper_pid IS NOT NULL)::integer::bigint AS keeper_running,
           ids_issued AS ids_issued_total, max_ids_per_second, busiest_second_ids,
           -- mutant: view-operator
           busiest_second_ids::double precision / max_ids_per_second::double precision AS busiest_second_ratio,
           ticks_exhausted AS ticks_exhausted_total, borrowed_ids AS borrowed_ids_total,
           history_ids AS history_ids_total,
           extract(epoch FROM last_issued_at)::double precision AS last_issued_timestamp_seconds,
           extract(epoch FROM lead)::double precision AS lead_seconds,
           extract(epoch FROM horizon_at)::double precision AS horizon_timestamp_seconds,
           extract(epoch FROM durable_mark)::double precision AS durable_mark_timestamp_seconds,
           extract(epoch FROM mark_left)::double precision AS mark_left_seconds,
           mark_extensions AS mark_extensions_total,
           extract(epoch FROM mark_wait_time)::double precision AS mark_wait_seconds_total,
           clock_regressions AS clock_regressions_total,
           extract(epoch FROM largest_regression)::double precision AS largest_regression_seconds,
           extract(epoch FROM last_regression_at)::double precision AS last_regression_timestamp_seconds,
           clock_waits AS clock_waits_total,
           extract(epoch FROM clock_wait_time)::double precision AS clock_wait_seconds_total,
           refusals AS refusals_total,
           extract(epoch FROM last_refusal_at)::double precision AS last_refusal_timestamp_seconds,
           extract(epoch FROM lease_until - clock_timestamp())::double precision AS lease_left_seconds,
           extract(epoch FROM clock_offset)::double precision AS clock_offset_seconds,
           extract(epoch FROM usable_until - clock_timestamp())::double precision AS layout_left_seconds,
           (regexp_replace(library_version, '[.][0-9]+$'::text, ''::text)
               <> regexp_replace(extension_version, '[.][0-9]+$'::text, ''::text))::integer::bigint AS versions_differ,
           CASE WHEN state <> 'not preloaded'
               AND pg_catalog.current_setting('snowflake_pg.track_writers'::text, true)::boolean THEN
               (SELECT coalesce(extract(epoch FROM max(clock_timestamp() - first_id_at)), 0) FROM snowflake_writers)
               END::double precision AS oldest_writer_seconds,
           extract(epoch FROM stats_reset_at)::double precision AS stats_reset_timestamp_seconds
    FROM snowflake_status;
GRANT SELECT ON snowflake_metrics TO PUBLIC;
COMMENT ON VIEW snowflake_metrics IS
    'snowflake_status as numbers, for exporters of metrics, with their names: _total for counters, _seconds for '
    'lengths of time, _timestamp_seconds for times in Unix seconds';
COMMENT ON COLUMN snowflake_metrics.can_issue IS
    '1 if state is ready or idle, else 0; 0 also if the durable mark is used up and cannot be written';
COMMENT ON COLUMN snowflake_metrics.is_standby IS
    '1 if the server is a standby, or has not finished its recovery, else 0';
COMMENT ON COLUMN snowflake_metrics.keeper_running IS
    '1 if the background worker that writes the durable mark runs, else 0';
COMMENT ON COLUMN snowflake_metrics.busiest_second_ratio IS
    'busiest_second_ids / max_ids_per_second: 1 is the limit of the layout';
COMMENT ON COLUMN snowflake_metrics.lease_left_seconds IS 'until lease_until, by the clock of this server';
COMMENT ON COLUMN snowflake_metrics.layout_left_seconds IS 'until usable_until';
COMMENT ON COLUMN snowflake_metrics.versions_differ IS
    '1 if library_version and extension_version differ by more than corrections: run ALTER EXTENSION snowflake_pg '
    'UPDATE, or restart the server';
COMMENT ON COLUMN snowflake_metrics.oldest_writer_seconds IS
    'how long ago the oldest transaction that has not ended drew its first ID, which holds back readers by ID; 0 '
    'without one';
