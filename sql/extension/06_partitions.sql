-- Partitions by time

-- Types instead of OUT parameters, which would make \df wider.
CREATE TYPE snowflake_partition AS (
    partition regclass, begins_at timestamptz, ends_at timestamptz, rows bigint, bytes bigint);
COMMENT ON TYPE snowflake_partition IS 'row of snowflake_partitions() and snowflake_create_partitions()';
COMMENT ON COLUMN snowflake_partition.begins_at IS 'first timestamp; NULL for a default partition';
COMMENT ON COLUMN snowflake_partition.ends_at IS
    'end, which is the first timestamp of the next partition; NULL for a default partition';
COMMENT ON COLUMN snowflake_partition.rows IS 'as ANALYZE has estimated them; NULL if it has never run';
COMMENT ON COLUMN snowflake_partition.bytes IS 'size with indexes and TOAST';

-- PARALLEL UNSAFE: it creates tables, as the owner of the parent, whose privileges the caller must have.
-- If the type of the key is a domain, its CHECK must allow the bounds.
CREATE FUNCTION snowflake_create_partitions(
    relation regclass, every interval, ahead integer) RETURNS SETOF snowflake_partition
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 10
    AS 'MODULE_PATHNAME', 'snowflake_create_partitions_wrapper';
COMMENT ON FUNCTION snowflake_create_partitions(regclass, interval, integer) IS
    'create the missing partitions of a table that is partitioned by range of its ID, for the current period, such as '
    'a day, and for that many periods ahead; returns the partitions created';

CREATE FUNCTION snowflake_create_partitions(
    relation regclass, every interval, ahead integer, layout text) RETURNS SETOF snowflake_partition
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 10
    AS 'MODULE_PATHNAME', 'snowflake_create_partitions_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_create_partitions(regclass, interval, integer, text) IS
    'create the missing partitions of a table that is partitioned by range of IDs of this layout';

CREATE FUNCTION snowflake_partitions(relation regclass) RETURNS SETOF snowflake_partition
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE ROWS 100 AS 'MODULE_PATHNAME', 'snowflake_partitions_wrapper';
COMMENT ON FUNCTION snowflake_partitions(regclass) IS
    'partitions of a table that is partitioned by range of its ID: when each begins and ends, its rows and its size; a '
    'default partition is last';

CREATE FUNCTION snowflake_partitions(relation regclass, layout text) RETURNS SETOF snowflake_partition
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE ROWS 100 AS 'MODULE_PATHNAME', 'snowflake_partitions_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_partitions(regclass, text) IS
    'partitions of a table that is partitioned by range of IDs of this layout';
