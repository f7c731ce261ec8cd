-- Decoding and composing

CREATE FUNCTION snowflake_decode(
    id bigint, OUT issued_at timestamptz, OUT datacenter_id integer, OUT worker_id integer, OUT sequence integer,
    OUT tag integer)
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_decode_wrapper';
COMMENT ON FUNCTION snowflake_decode(bigint) IS
    'fields of an ID: when, by which data center and worker, its number in that tick, and its tag; NULL for a field '
    'that the layout lacks';

CREATE FUNCTION snowflake_decode(
    id bigint, layout text,
    OUT issued_at timestamptz, OUT datacenter_id integer, OUT worker_id integer, OUT sequence integer,
    OUT tag integer)
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_decode_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_decode(bigint, text) IS
    'fields of an ID of this layout, such as discord, or t41 w10 s12 epoch=2024-01-01T00:00:00Z; for indexes and '
    'generated columns';

-- STABLE: it looks at the clock.
CREATE FUNCTION snowflake_decode_all(
    id bigint, OUT layout text, OUT issued_at timestamptz, OUT datacenter_id integer, OUT worker_id integer,
    OUT sequence integer, OUT tag integer) RETURNS SETOF record
    LANGUAGE c STABLE STRICT PARALLEL SAFE ROWS 10 AS 'MODULE_PATHNAME', 'snowflake_decode_all_wrapper';
COMMENT ON FUNCTION snowflake_decode_all(bigint) IS
    'fields of an ID of unknown origin under each named layout that it fits, the latest time first, without times more '
    'than a day ahead';

CREATE FUNCTION snowflake_timestamp(id bigint) RETURNS timestamptz
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_timestamp_wrapper';
COMMENT ON FUNCTION snowflake_timestamp(bigint) IS
    'when an ID was issued: start of its tick';

CREATE FUNCTION snowflake_timestamp(id bigint, layout text) RETURNS timestamptz
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_timestamp_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_timestamp(bigint, text) IS
    'when an ID of this layout was issued; for indexes and generated columns';

CREATE FUNCTION snowflake_explain(id bigint) RETURNS text
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_explain_wrapper';
COMMENT ON FUNCTION snowflake_explain(bigint) IS
    'bits of an ID, grouped by field, with the meaning of each field';

CREATE FUNCTION snowflake_explain(id bigint, layout text) RETURNS text
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_explain_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_explain(bigint, text) IS
    'bits of an ID of this layout, grouped by field, with the meaning of each field';

-- Not STRICT: decoding gives NULL for a field that the layout does not have, and composing takes it back.
CREATE FUNCTION snowflake_compose(
    issued_at timestamptz, datacenter_id integer, worker_id integer, sequence integer, tag integer DEFAULT 0)
    RETURNS bigint
    LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_compose_wrapper';
COMMENT ON FUNCTION snowflake_compose(timestamptz, integer, integer, integer, integer) IS
    'ID with these fields; NULL or 0 for a field that the layout lacks, and for no tag';

CREATE FUNCTION snowflake_compose(
    issued_at timestamptz, datacenter_id integer, worker_id integer, sequence integer, tag integer, layout text)
    RETURNS bigint
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_compose_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_compose(timestamptz, integer, integer, integer, integer, text) IS
    'ID of this layout with these fields; NULL or 0 for a field that the layout lacks, and for no tag';
