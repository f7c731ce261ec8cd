-- Events, partitioned by the time in their IDs: a partition a day, a week ahead.
--
--     psql -d shop -f events_by_time.sql

\set ON_ERROR_STOP on
CREATE EXTENSION IF NOT EXISTS snowflake_pg;

CREATE TABLE events (
    id bigint PRIMARY KEY DEFAULT snowflake_nextval(),
    what text NOT NULL
) PARTITION BY RANGE (id);

-- To be called every day: from pg_cron, or from a timer of the system.
SELECT count(*) AS partitions FROM snowflake_create_partitions('events', '1 day', 7);

-- The last hour, from the partitions of that time alone.
CREATE VIEW events_of_last_hour AS
    SELECT snowflake_timestamp(id) AS at, id, what FROM events
    WHERE snowflake_within(id, now() - interval '1 hour', 'infinity');
