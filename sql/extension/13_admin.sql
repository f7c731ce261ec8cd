-- Administration: only for superusers by default

CREATE FUNCTION snowflake_advance(past bigint, force boolean DEFAULT false) RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_advance_wrapper';
COMMENT ON FUNCTION snowflake_advance(bigint, boolean) IS
    'make all new IDs greater than past, as setval() does for sequences: for IDs that were restored or come from '
    'elsewhere; force it if past is more than snowflake_pg.max_forward_jump ahead of the clock';

CREATE FUNCTION snowflake_accept_mark(force boolean DEFAULT false) RETURNS timestamptz
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_accept_mark_wrapper';
COMMENT ON FUNCTION snowflake_accept_mark(boolean) IS
    'accept the durable mark of a copied server, of another cluster or of another layout, when no other server issues '
    'IDs of this worker; force also a layout whose IDs could equal old ones; returns when IDs begin, or NULL if there '
    'is nothing to accept';

CREATE FUNCTION snowflake_reset_mark(floor timestamptz) RETURNS timestamptz
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_reset_mark_wrapper';
COMMENT ON FUNCTION snowflake_reset_mark(timestamptz) IS
    'replace a damaged durable mark, or one that was reset too far ahead; floor must be later than every ID that this '
    'server has issued: now() if the clock has always been right; returns when IDs begin';

CREATE FUNCTION snowflake_accept_clock() RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_accept_clock_wrapper';
COMMENT ON FUNCTION snowflake_accept_clock() IS
    'trust the clock at once, instead of after a minute, when it has jumped ahead by more than '
    'snowflake_pg.max_forward_jump';

CREATE FUNCTION snowflake_reset_stats() RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_reset_stats_wrapper';
COMMENT ON FUNCTION snowflake_reset_stats() IS
    'reset the counters in snowflake_status';

REVOKE ALL ON FUNCTION
    snowflake_advance(bigint, boolean), snowflake_accept_mark(boolean), snowflake_reset_mark(timestamptz),
    snowflake_accept_clock(), snowflake_reset_stats() FROM PUBLIC;

-- Warns if the library is not preloaded.
SELECT FROM snowflake_status;
