-- Monitoring.

CREATE OR REPLACE FUNCTION ids.snowflake_get_status(
        OUT state text, OUT problem text, OUT problem_sqlstate text, OUT worker_id integer, OUT datacenter_id integer,
        OUT layout text,
        OUT usable_until timestamptz, OUT last_issued_at timestamptz, OUT lead interval, OUT extension_version text)
    LANGUAGE plpgsql STABLE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f ids.snowflake_fields := ids.snowflake_own_fields();
    last bigint := ids.snowflake_last();
    trouble ids.snowflake_problem := ids.snowflake_problem_of_database();
    ms bigint := ids.snowflake_unix_ms();
BEGIN
    worker_id := ids.snowflake_worker_id();
    datacenter_id := CASE WHEN f.datacenter_bits > 0 THEN ids.snowflake_datacenter_id() END;
    layout := f.text;
    usable_until := ids.snowflake_at(f.epoch + f.tick_ms * f.last_tick);
    last_issued_at := ids.snowflake_at(f.epoch + f.tick_ms * (last >> f.sequence_bits));
    lead := greatest(last_issued_at - clock_timestamp(), interval '0');
    extension_version := ids.snowflake_script_version();
    IF trouble.message IS NULL AND (ms NOT BETWEEN f.epoch AND f.issues_until
        OR lead > interval '1 millisecond' * (ids.snowflake_max_ahead_ms() + ids.snowflake_max_wait_ms())::float8) THEN
        trouble := ids.snowflake_problem_of_clock(ms);
    END IF;
    state := coalesce(trouble.state, CASE WHEN last IS NULL THEN 'idle' ELSE 'ready' END);
    problem := upper(left(trouble.message, 1)) || substr(trouble.message, 2)
        || format('. %s %s', trouble.detail, trouble.hint);
    problem_sqlstate := trouble.code;
END
$$;
COMMENT ON FUNCTION ids.snowflake_get_status() IS 'not to be called directly: use the view snowflake_status';

CREATE OR REPLACE VIEW ids.snowflake_status AS SELECT * FROM ids.snowflake_get_status();
COMMENT ON VIEW ids.snowflake_status IS 'one row: whether this database issues IDs, and which';
COMMENT ON COLUMN ids.snowflake_status.state IS 'ready; idle before the first ID; others are in docs/hosted.md';
COMMENT ON COLUMN ids.snowflake_status.problem IS 'why no ID is issued, and what to do; NULL if nothing is wrong';
COMMENT ON COLUMN ids.snowflake_status.problem_sqlstate IS 'its SQLSTATE; NULL if nothing is wrong';
COMMENT ON COLUMN ids.snowflake_status.usable_until IS 'last timestamp of the layout';
COMMENT ON COLUMN ids.snowflake_status.last_issued_at IS
    'timestamp of the last ID, or after a server start, the time above which IDs continue';
COMMENT ON COLUMN ids.snowflake_status.lead IS 'how far last_issued_at is ahead of the clock';
COMMENT ON COLUMN ids.snowflake_status.extension_version IS 'version of this script';
GRANT SELECT ON ids.snowflake_status TO PUBLIC;
