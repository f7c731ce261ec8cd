-- Layouts
--
-- A function that depends on snowflake_pg.layout has a second form, with the layout as its last argument. The first is
-- at most STABLE. The second is IMMUTABLE if it reads nothing else, so that an index or a generated column can use it.
-- The planner adds the layout to calls in queries.

-- The functions behind views declare no columns, which would make \df wider. The library returns the columns that the
-- view declares.
CREATE FUNCTION snowflake_get_layouts() RETURNS SETOF record
    LANGUAGE c STABLE STRICT PARALLEL SAFE ROWS 17 AS 'MODULE_PATHNAME', 'snowflake_get_layouts_wrapper';
COMMENT ON FUNCTION snowflake_get_layouts() IS
    'not to be called: use the view snowflake_layouts';

CREATE VIEW snowflake_layouts AS
    SELECT * FROM snowflake_get_layouts() AS layouts(
        name text, fields text, unit interval, epoch timestamptz, usable_until timestamptz, years double precision,
        workers bigint, max_ids_per_second bigint, can_issue boolean, source text);
GRANT SELECT ON snowflake_layouts TO PUBLIC;
COMMENT ON VIEW snowflake_layouts IS
    'named layouts, for snowflake_pg.layout and for functions that take a layout';
COMMENT ON COLUMN snowflake_layouts.fields IS
    'widths of timestamp (t), data center (d), worker (w) and sequence (s), from the highest bits to the lowest';
COMMENT ON COLUMN snowflake_layouts.unit IS 'length of a tick';
COMMENT ON COLUMN snowflake_layouts.epoch IS 'first timestamp';
COMMENT ON COLUMN snowflake_layouts.years IS 'how long the timestamps last, from the epoch';
COMMENT ON COLUMN snowflake_layouts.workers IS 'number of servers in all data centers together';
COMMENT ON COLUMN snowflake_layouts.max_ids_per_second IS 'most IDs that one server can issue in a second';
COMMENT ON COLUMN snowflake_layouts.can_issue IS
    'whether a server can issue IDs now: at most 63 bits, timestamp highest, last timestamp not past; if it is, add a '
    'later epoch=';
COMMENT ON COLUMN snowflake_layouts.source IS 'where the layout is published';
