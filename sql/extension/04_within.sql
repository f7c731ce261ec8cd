-- Selecting by time, with an index on the ID

CREATE FUNCTION snowflake_min_id(at timestamptz) RETURNS bigint
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_min_id_wrapper';
COMMENT ON FUNCTION snowflake_min_id(timestamptz) IS
    'lowest ID of any worker in the tick of a time';

CREATE FUNCTION snowflake_min_id(at timestamptz, layout text) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_min_id_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_min_id(timestamptz, text) IS
    'lowest ID of this layout in the tick of a time';

-- The planner compares an ID with this where a query compares its time, so EXPLAIN shows it.
CREATE FUNCTION snowflake_bound(at timestamptz, operator text) RETURNS bigint
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_bound_wrapper';
COMMENT ON FUNCTION snowflake_bound(timestamptz, text) IS
    'lowest ID whose time is >= or > a time, or greatest one whose time is <= or <; NULL if there is none';

CREATE FUNCTION snowflake_bound(at timestamptz, operator text, layout text) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_bound_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_bound(timestamptz, text, text) IS
    'lowest ID of this layout whose time is >= or > a time, or greatest one whose time is <= or <; NULL if there is '
    'none';

-- Not STRICT, so that the planner can put the two comparisons in its place. NULLs behave as they do in BETWEEN.
CREATE FUNCTION snowflake_within(id bigint, since timestamptz, until timestamptz DEFAULT 'infinity') RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN id >= snowflake_bound(since, '>='::text) AND id <= snowflake_bound(until, '<'::text);
COMMENT ON FUNCTION snowflake_within(bigint, timestamptz, timestamptz) IS
    'whether the time of an ID is since or later, and before until; uses an index on the ID';

CREATE FUNCTION snowflake_within(id bigint, since timestamptz, until timestamptz, layout text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN id >= snowflake_bound(since, '>='::text, layout) AND id <= snowflake_bound(until, '<'::text, layout);
COMMENT ON FUNCTION snowflake_within(bigint, timestamptz, timestamptz, text) IS
    'whether the time of an ID of this layout is since or later, and before until; uses an index on the ID';

-- PostgreSQL's casts refuse what its operators compare.
CREATE FUNCTION snowflake_instant(at timestamp) RETURNS timestamptz
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_instant_wrapper';
COMMENT ON FUNCTION snowflake_instant(timestamp) IS
    'not to be called: how the planner casts timestamp to timestamptz; infinity or -infinity beyond its range';

CREATE FUNCTION snowflake_midnight(at date) RETURNS timestamp
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_midnight_wrapper';
COMMENT ON FUNCTION snowflake_midnight(date) IS
    'not to be called: how the planner casts date to timestamp; infinity beyond its range';
