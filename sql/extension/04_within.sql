-- Selecting by time, with an index on the ID

CREATE FUNCTION snowflake_min_id(at timestamptz) RETURNS bigint
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_min_id_wrapper';
COMMENT ON FUNCTION snowflake_min_id(timestamptz) IS
    'lowest ID of any worker in the tick of a time; 0 for -infinity, the largest bigint for infinity';

CREATE FUNCTION snowflake_min_id(at timestamptz, layout text) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_min_id_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_min_id(timestamptz, text) IS
    'lowest ID of this layout in the tick of a time; 0 for -infinity, the largest bigint for infinity';

-- Not STRICT, so that the planner can put the two comparisons in its place. NULLs behave as they do in BETWEEN.
CREATE FUNCTION snowflake_within(id bigint, since timestamptz, until timestamptz DEFAULT 'infinity') RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN id >= snowflake_min_id(since) AND id < snowflake_min_id(until);
COMMENT ON FUNCTION snowflake_within(bigint, timestamptz, timestamptz) IS
    'whether an ID was issued in the tick of since or later, and before the tick of until; uses an index on the ID';

CREATE FUNCTION snowflake_within(id bigint, since timestamptz, until timestamptz, layout text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN id >= snowflake_min_id(since, layout) AND id < snowflake_min_id(until, layout);
COMMENT ON FUNCTION snowflake_within(bigint, timestamptz, timestamptz, text) IS
    'whether an ID of this layout was issued in the tick of since or later, and before the tick of until';

-- What the planner compares an ID with, where a query compares its time. IMMUTABLE: the layout is named.
CREATE FUNCTION snowflake_first_id(at timestamptz, inclusive boolean, layout text) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_first_id_wrapper';
COMMENT ON FUNCTION snowflake_first_id(timestamptz, boolean, text) IS
    'lowest ID of this layout whose time is at (if inclusive) or later; NULL if there is none';

CREATE FUNCTION snowflake_last_id(at timestamptz, inclusive boolean, layout text) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_last_id_wrapper';
COMMENT ON FUNCTION snowflake_last_id(timestamptz, boolean, text) IS
    'greatest ID of this layout whose time is at (if inclusive) or earlier; NULL if there is none';

-- PostgreSQL's casts refuse what its operators compare.
CREATE FUNCTION snowflake_instant(at timestamp) RETURNS timestamptz
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_instant_wrapper';
COMMENT ON FUNCTION snowflake_instant(timestamp) IS
    'timestamp in the time zone of the session as a timestamptz; infinity or -infinity beyond its range';

CREATE FUNCTION snowflake_midnight(at date) RETURNS timestamp
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_midnight_wrapper';
COMMENT ON FUNCTION snowflake_midnight(date) IS 'midnight of a date; infinity beyond the range of timestamp';
