-- Partitions by time

-- Types instead of OUT parameters, which would make \df wider.
CREATE TYPE snowflake_partition AS (
    partition regclass, since timestamptz, until timestamptz, rows bigint, bytes bigint);
COMMENT ON TYPE snowflake_partition IS 'row of snowflake_partitions() and snowflake_create_partitions()';
COMMENT ON COLUMN snowflake_partition.since IS 'first timestamp; NULL for a default partition';
COMMENT ON COLUMN snowflake_partition.until IS 'end, which is the first timestamp of the next partition; NULL for a default partition';
COMMENT ON COLUMN snowflake_partition.rows IS 'as ANALYZE has estimated them; NULL if it has never run';
COMMENT ON COLUMN snowflake_partition.bytes IS 'size with indexes and TOAST';

-- PARALLEL UNSAFE: it creates tables, as the owner of the parent, whose privileges the caller must have.
-- If the type of the key is a domain, its CHECK must allow the bounds.
CREATE FUNCTION snowflake_create_partitions(
    relation regclass, every interval, ahead integer) RETURNS SETOF snowflake_partition
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 10
    AS 'MODULE_PATHNAME', 'snowflake_create_partitions_wrapper';
COMMENT ON FUNCTION snowflake_create_partitions(regclass, interval, integer) IS
    'create the missing partitions of a table that is partitioned by range of its ID, for the current period, such as a day, and for that many periods ahead; returns the partitions created';

CREATE FUNCTION snowflake_create_partitions(
    relation regclass, every interval, ahead integer, layout text) RETURNS SETOF snowflake_partition
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 10
    AS 'MODULE_PATHNAME', 'snowflake_create_partitions_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_create_partitions(regclass, interval, integer, text) IS
    'create the missing partitions of a table that is partitioned by range of IDs of this layout';

CREATE FUNCTION snowflake_partitions(relation regclass) RETURNS SETOF snowflake_partition
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE ROWS 100 AS 'MODULE_PATHNAME', 'snowflake_partitions_wrapper';
COMMENT ON FUNCTION snowflake_partitions(regclass) IS
    'partitions of a table that is partitioned by range of its ID: when each begins and ends, its rows and its size; a default partition is last';

CREATE FUNCTION snowflake_partitions(relation regclass, layout text) RETURNS SETOF snowflake_partition
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE ROWS 100 AS 'MODULE_PATHNAME', 'snowflake_partitions_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_partitions(regclass, text) IS
    'partitions of a table that is partitioned by range of IDs of this layout';

CREATE TYPE snowflake_old_partition AS (
    command text, partition text, since timestamptz, until timestamptz, rows bigint, bytes bigint);
COMMENT ON TYPE snowflake_old_partition IS 'row of snowflake_drop_partitions(); columns other than command are as in snowflake_partition';
COMMENT ON COLUMN snowflake_old_partition.command IS 'to be run, or with dry_run false, run';
COMMENT ON COLUMN snowflake_old_partition.partition IS 'schema-qualified name, since the table may be gone';

CREATE FUNCTION snowflake_drop_partitions(
    relation regclass, before timestamptz, dry_run boolean, layout text) RETURNS SETOF snowflake_old_partition
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 10
    AS 'MODULE_PATHNAME', 'snowflake_drop_partitions_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_drop_partitions(regclass, timestamptz, boolean, text) IS
    'commands for \gexec that detach and drop old partitions of IDs of this layout; with dry_run false, drops them at once';

CREATE FUNCTION snowflake_drop_partitions(
    relation regclass, before timestamptz, dry_run boolean DEFAULT true) RETURNS SETOF snowflake_old_partition
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 10
    AS 'MODULE_PATHNAME', 'snowflake_drop_partitions_wrapper';
COMMENT ON FUNCTION snowflake_drop_partitions(regclass, timestamptz, boolean) IS
    'commands for \gexec that detach and drop the partitions that end before a time, while readers and writers continue; with dry_run false, drops them at once';
