-- snowflake_pg: everything that SQL sees, on one page.
--
-- VOLATILE: a new value every call. STABLE: depends on snowflake_pg.layout, fixed while a server runs that preloads.
-- STRICT: NULL gives NULL. All are PARALLEL SAFE: the generator lies in shared memory.
-- Whoever may insert may draw IDs, and most of the rest only reads; what a DBA does is revoked from PUBLIC, below.

\echo Use "CREATE EXTENSION snowflake_pg" to load this file. \quit

-- Issuing ------------------------------------------------------------------------------------------------------------

-- Not to be called: by these COPY learns that snowflake_nextval(), as a default, does not look at the table, as nextval() does not.
CREATE FUNCTION snowflake_nextval_in_copy(internal) RETURNS bigint
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_nextval';
COMMENT ON FUNCTION snowflake_nextval_in_copy(internal) IS
    'what COPY calls in the place of snowflake_nextval()';
CREATE FUNCTION snowflake_nextval_support(internal) RETURNS internal
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_nextval_support_wrapper';
COMMENT ON FUNCTION snowflake_nextval_support(internal) IS
    'puts it there';

CREATE FUNCTION snowflake_nextval() RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE SUPPORT snowflake_nextval_support
    AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION snowflake_nextval() IS
    'a new ID, greater than every ID this server has returned before (unless clock_regression is history); for id bigint PRIMARY KEY DEFAULT snowflake_nextval()';

CREATE FUNCTION snowflake_nextvals(count integer) RETURNS SETOF bigint
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE ROWS 1000 AS 'MODULE_PATHNAME', 'snowflake_nextvals_wrapper';
COMMENT ON FUNCTION snowflake_nextvals(integer) IS
    'that many new IDs (1 to 1000000) in ascending order, all taken when the call begins';

-- Layouts ------------------------------------------------------------------------------------------------------------
--
-- What depends on snowflake_pg.layout is STABLE. With the layout as its last argument it depends on that alone and is IMMUTABLE,
-- so that an index or a generated column can use it. The planner adds the layout to calls in queries.

-- Functions of views declare no columns: each would make \df wider. The library builds those that the view asks for.
CREATE FUNCTION snowflake_get_layouts() RETURNS SETOF record
    LANGUAGE c STABLE STRICT PARALLEL SAFE ROWS 12 AS 'MODULE_PATHNAME', 'snowflake_get_layouts_wrapper';
COMMENT ON FUNCTION snowflake_get_layouts() IS
    'not to be called: use the view snowflake_layouts';

CREATE VIEW snowflake_layouts AS
    SELECT * FROM snowflake_get_layouts() AS layouts(
        name text, fields text, unit interval, epoch timestamptz, last_timestamp timestamptz, years double precision,
        workers bigint, ids_per_second bigint, can_generate boolean, source text);
GRANT SELECT ON snowflake_layouts TO PUBLIC;
COMMENT ON VIEW snowflake_layouts IS
    'the layouts that have a name, for snowflake_pg.layout and for functions with a layout';
COMMENT ON COLUMN snowflake_layouts.fields IS
    'from the highest bits to the lowest, with their widths: timestamp, data center, worker, sequence';
COMMENT ON COLUMN snowflake_layouts.unit IS 'length of a tick';
COMMENT ON COLUMN snowflake_layouts.epoch IS 'the first timestamp';
COMMENT ON COLUMN snowflake_layouts.years IS 'how long the timestamps last from the epoch on';
COMMENT ON COLUMN snowflake_layouts.workers IS 'how many servers there can be, over all data centers';
COMMENT ON COLUMN snowflake_layouts.ids_per_second IS 'of each of them';
COMMENT ON COLUMN snowflake_layouts.can_generate IS
    'whether IDs can be issued now: 63 bits at most, the timestamp highest, and not over; where it is over, a later epoch= helps';
COMMENT ON COLUMN snowflake_layouts.source IS 'where the layout was published';

-- Taking IDs apart, and putting them together ------------------------------------------------------------------------

CREATE FUNCTION snowflake_decode(
    id bigint, OUT issued_at timestamptz, OUT datacenter_id integer, OUT worker_id integer, OUT sequence integer)
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_decode_wrapper';
COMMENT ON FUNCTION snowflake_decode(bigint) IS
    'what an ID says: when, by which data center and worker, and its number in that tick; NULL where the layout has no such field';

CREATE FUNCTION snowflake_decode(
    id bigint, layout text,
    OUT issued_at timestamptz, OUT datacenter_id integer, OUT worker_id integer, OUT sequence integer)
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_decode_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_decode(bigint, text) IS
    'what an ID of this layout says, such as discord, or t41 w10 s12 epoch=2024-01-01T00:00:00Z';

CREATE FUNCTION snowflake_timestamp(id bigint) RETURNS timestamptz
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_timestamp_wrapper';
COMMENT ON FUNCTION snowflake_timestamp(bigint) IS
    'when an ID was issued: the beginning of its tick';

CREATE FUNCTION snowflake_timestamp(id bigint, layout text) RETURNS timestamptz
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_timestamp_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_timestamp(bigint, text) IS
    'when an ID of this layout was issued';

CREATE FUNCTION snowflake_explain(id bigint) RETURNS text
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_explain_wrapper';
COMMENT ON FUNCTION snowflake_explain(bigint) IS
    'the bits of an ID, grouped by field, and what each field says: for people';

CREATE FUNCTION snowflake_explain(id bigint, layout text) RETURNS text
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_explain_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_explain(bigint, text) IS
    'the bits of an ID of this layout, grouped by field, and what each field says: for people';

-- Not STRICT: decoding gives NULL for a field that the layout does not have, and composing takes it back.
CREATE FUNCTION snowflake_compose(
    issued_at timestamptz, datacenter_id integer, worker_id integer, sequence integer) RETURNS bigint
    LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_compose_wrapper';
COMMENT ON FUNCTION snowflake_compose(timestamptz, integer, integer, integer) IS
    'the ID that decodes to this; 0 or NULL for a field that the layout does not have';

CREATE FUNCTION snowflake_compose(
    issued_at timestamptz, datacenter_id integer, worker_id integer, sequence integer, layout text) RETURNS bigint
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_compose_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_compose(timestamptz, integer, integer, integer, text) IS
    'the ID of this layout that decodes to this; 0 or NULL for a field that the layout does not have';

-- Selecting by time: these use an index on the ID --------------------------------------------------------------------

CREATE FUNCTION snowflake_min_id(at timestamptz) RETURNS bigint
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_min_id_wrapper';
COMMENT ON FUNCTION snowflake_min_id(timestamptz) IS
    'the lowest ID of any worker in the tick of a time; 0 for -infinity, and the largest bigint for infinity';

CREATE FUNCTION snowflake_min_id(at timestamptz, layout text) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_min_id_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_min_id(timestamptz, text) IS
    'the lowest ID of this layout in the tick of a time; 0 for -infinity, and the largest bigint for infinity';

-- Not STRICT, so that the planner can put the two comparisons in its place. NULLs behave as they do in BETWEEN.
CREATE FUNCTION snowflake_within(id bigint, since timestamptz, until timestamptz) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN id >= snowflake_min_id(since) AND id < snowflake_min_id(until);
COMMENT ON FUNCTION snowflake_within(bigint, timestamptz, timestamptz) IS
    'whether an ID was issued in or after the tick of the first time, and before that of the second';

CREATE FUNCTION snowflake_within(id bigint, since timestamptz, until timestamptz, layout text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN id >= snowflake_min_id(since, layout) AND id < snowflake_min_id(until, layout);
COMMENT ON FUNCTION snowflake_within(bigint, timestamptz, timestamptz, text) IS
    'whether an ID of this layout was issued in or after the tick of the first time, and before that of the second';

CREATE FUNCTION snowflake_now() RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN snowflake_min_id(now());
COMMENT ON FUNCTION snowflake_now() IS
    'the lowest ID of the tick in which the transaction began: now() as an ID';

CREATE FUNCTION snowflake_now(layout text) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN snowflake_min_id(now(), layout);
COMMENT ON FUNCTION snowflake_now(text) IS
    'the lowest ID of this layout in the tick in which the transaction began';

CREATE FUNCTION snowflake_interval(length interval) RETURNS bigint
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_interval_wrapper';
COMMENT ON FUNCTION snowflake_interval(interval) IS
    'how far apart IDs are that were issued this long apart: the width of a range of IDs; days are of 24 hours';

CREATE FUNCTION snowflake_interval(length interval, layout text) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_interval_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_interval(interval, text) IS
    'how far apart IDs of this layout are that were issued this long apart';

-- PARALLEL UNSAFE, as they make tables; they refuse who has not the privileges of the parent's owner, and go on as that owner.
-- Where the key's type is a domain, its CHECK must allow the bounds.

CREATE FUNCTION snowflake_create_partitions(
    parent regclass, every interval, ahead integer,
    OUT partition regclass, OUT since timestamptz, OUT until timestamptz) RETURNS SETOF record
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 10
    AS 'MODULE_PATHNAME', 'snowflake_create_partitions_wrapper';
COMMENT ON FUNCTION snowflake_create_partitions(regclass, interval, integer) IS
    'gives a table that is partitioned by range of its ID what it lacks: a partition for the present day, month or other period, and for as many following ones; returns those made';

CREATE FUNCTION snowflake_create_partitions(
    parent regclass, every interval, ahead integer, layout text,
    OUT partition regclass, OUT since timestamptz, OUT until timestamptz) RETURNS SETOF record
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 10
    AS 'MODULE_PATHNAME', 'snowflake_create_partitions_with_layout_wrapper';
COMMENT ON FUNCTION snowflake_create_partitions(regclass, interval, integer, text) IS
    'the same for IDs of this layout';

-- Other forms of an ID: the same number, so they need no layout ------------------------------------------------------

CREATE FUNCTION snowflake_to_text(id bigint, encoding text) RETURNS text
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_to_text_wrapper';
COMMENT ON FUNCTION snowflake_to_text(bigint, text) IS
    'an ID as a short text, for URLs: base62, base58, crockford32 (13 characters) or hex (16); with COLLATE "C" the last two sort as the ID does';

CREATE FUNCTION snowflake_to_text(id bigint, encoding text, alphabet text) RETURNS text
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_to_text_with_alphabet_wrapper';
COMMENT ON FUNCTION snowflake_to_text(bigint, text, text) IS
    'the same with digits of choice, from that of 0 on: 62 different ASCII characters for base62, 58 for base58';

CREATE FUNCTION snowflake_from_text(text text, encoding text) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_from_text_wrapper';
COMMENT ON FUNCTION snowflake_from_text(text, text) IS
    'the ID that snowflake_to_text() wrote; crockford32 and hex are read in any letter case, crockford32 also with I or L for 1, O for 0, and hyphens';

CREATE FUNCTION snowflake_from_text(text text, encoding text, alphabet text) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_from_text_with_alphabet_wrapper';
COMMENT ON FUNCTION snowflake_from_text(text, text, text) IS
    'the same with the digits of choice that it was written with';

CREATE FUNCTION snowflake_to_uuid(id bigint) RETURNS uuid
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_to_uuid_wrapper';
COMMENT ON FUNCTION snowflake_to_uuid(bigint) IS
    'an ID as a UUID of version 8 (RFC 9562) that sorts as the ID does';

CREATE FUNCTION snowflake_from_uuid(uuid uuid) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_from_uuid_wrapper';
COMMENT ON FUNCTION snowflake_from_uuid(uuid) IS
    'the ID that snowflake_to_uuid() made a UUID of; any other UUID is refused';

-- The type snowflake: a bigint that is a string in JSON, as JavaScript's numbers are exact only to 2^53 ---------------
--
-- It has int8's operators, and int8's operator classes for btree, hash and brin, as varchar has those of text. With its
-- own, in a family of their own, a join of a snowflake with a bigint could not use the index on the bigint.

CREATE TYPE snowflake;
CREATE FUNCTION snowflake_in(cstring) RETURNS snowflake
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int8in';
CREATE FUNCTION snowflake_out(snowflake) RETURNS cstring
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int8out';
CREATE FUNCTION snowflake_recv(internal) RETURNS snowflake
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int8recv';
CREATE FUNCTION snowflake_send(snowflake) RETURNS bytea
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int8send';
CREATE TYPE snowflake (
    INPUT = snowflake_in, OUTPUT = snowflake_out, RECEIVE = snowflake_recv, SEND = snowflake_send,
    LIKE = bigint, CATEGORY = 'N');
COMMENT ON TYPE snowflake IS
    'a bigint that is a string in JSON, so that JavaScript loses no digits; goes wherever a bigint goes';
COMMENT ON FUNCTION snowflake_in(cstring) IS 'I/O';
COMMENT ON FUNCTION snowflake_out(snowflake) IS 'I/O';
COMMENT ON FUNCTION snowflake_recv(internal) IS 'I/O';
COMMENT ON FUNCTION snowflake_send(snowflake) IS 'I/O';

-- One way implicit, one way not: where both types meet, as in UNION, the result is a bigint whichever stands first.
CREATE CAST (snowflake AS bigint) WITHOUT FUNCTION AS IMPLICIT;
COMMENT ON CAST (snowflake AS bigint) IS 'the same bits';
CREATE CAST (bigint AS snowflake) WITHOUT FUNCTION AS ASSIGNMENT;
COMMENT ON CAST (bigint AS snowflake) IS 'the same bits';

-- For small constants: INSERT ... VALUES (1), and coalesce(id, 0), which stays a snowflake.
CREATE FUNCTION snowflake(integer) RETURNS snowflake
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int48';
COMMENT ON FUNCTION snowflake(integer) IS 'convert integer to snowflake';
CREATE CAST (integer AS snowflake) WITH FUNCTION snowflake(integer) AS IMPLICIT;
COMMENT ON CAST (integer AS snowflake) IS 'the same number';
CREATE FUNCTION snowflake(smallint) RETURNS snowflake
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int28';
COMMENT ON FUNCTION snowflake(smallint) IS 'convert smallint to snowflake';
CREATE CAST (smallint AS snowflake) WITH FUNCTION snowflake(smallint) AS IMPLICIT;
COMMENT ON CAST (smallint AS snowflake) IS 'the same number';

-- So that these are strings in JSON, too. That max(bigint) is read off an index takes an operator of exactly its type
-- in the family of the index. There is none here: ORDER BY id DESC LIMIT 1 reads one row where max(id) reads all.
CREATE FUNCTION snowflake_smaller(snowflake, snowflake) RETURNS snowflake
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int8smaller';
COMMENT ON FUNCTION snowflake_smaller(snowflake, snowflake) IS 'smaller of two';
CREATE FUNCTION snowflake_larger(snowflake, snowflake) RETURNS snowflake
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int8larger';
COMMENT ON FUNCTION snowflake_larger(snowflake, snowflake) IS 'larger of two';
CREATE AGGREGATE min(snowflake) (
    SFUNC = snowflake_smaller, STYPE = snowflake, COMBINEFUNC = snowflake_smaller, PARALLEL = SAFE);
COMMENT ON AGGREGATE min(snowflake) IS
    'minimum value of all snowflake input values; reads all of them, where ORDER BY id LIMIT 1 uses an index';
CREATE AGGREGATE max(snowflake) (
    SFUNC = snowflake_larger, STYPE = snowflake, COMBINEFUNC = snowflake_larger, PARALLEL = SAFE);
COMMENT ON AGGREGATE max(snowflake) IS
    'maximum value of all snowflake input values; reads all of them, where ORDER BY id DESC LIMIT 1 uses an index';

-- Looking after it ---------------------------------------------------------------------------------------------------

CREATE FUNCTION snowflake_get_status() RETURNS record
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_get_status_wrapper';
COMMENT ON FUNCTION snowflake_get_status() IS
    'not to be called: use the view snowflake_status';

CREATE VIEW snowflake_status AS
    SELECT status.*,
           CASE WHEN pg_has_role('pg_read_all_settings', 'USAGE')
                THEN current_setting('snowflake_pg.state_directory', true) END AS state_directory
    FROM snowflake_get_status() AS status(
        state text, worker_id integer, datacenter_id integer, layout text,
        clock_regression text, sequence_exhaustion text, sequence_start text,
        max_borrow interval, max_wait interval, reserve_ahead interval,
        last_issued_at timestamptz, lead interval, durable_mark timestamptz, usable_until timestamptz,
        ids_issued bigint, ticks_exhausted bigint, borrowed_ids bigint, history_ids bigint,
        clock_regressions bigint, largest_regression interval, last_regression_at timestamptz,
        waits bigint, wait_time interval, refusals bigint,
        mark_extensions bigint, mark_wait_time interval, stats_reset timestamptz);
GRANT SELECT ON snowflake_status TO PUBLIC;
COMMENT ON VIEW snowflake_status IS
    'one row about this server: configuration in force, durable mark, and counts of what has happened';
COMMENT ON COLUMN snowflake_status.state IS
    'ready; idle (no ID issued since the server started); waiting (until a mark that may have been lost no longer matters); standby; shared worker (a standby that has the worker of the server it was copied from, without wal_mark); not preloaded; worker unset; outside the layout (the clock is); misconfigured, not started (snowflake_nextval() and the server log say why)';
COMMENT ON COLUMN snowflake_status.worker_id IS 'snowflake_pg.worker_id; NULL while unset';
COMMENT ON COLUMN snowflake_status.layout IS 'snowflake_pg.layout, and in brackets what it stands for';
COMMENT ON COLUMN snowflake_status.last_issued_at IS 'timestamp of the last ID issued since the server started';
COMMENT ON COLUMN snowflake_status.lead IS
    'how far that is ahead of the clock; 0 unless the clock was set back or the server has just started';
COMMENT ON COLUMN snowflake_status.durable_mark IS
    'on disk: no ID is issued at or above it, and after a crash IDs begin there';
COMMENT ON COLUMN snowflake_status.usable_until IS 'the last timestamp that the layout has room for';
COMMENT ON COLUMN snowflake_status.ids_issued IS 'IDs issued since stats_reset, as is counted all that follows';
COMMENT ON COLUMN snowflake_status.ticks_exhausted IS 'ticks of which the last ID was issued';
COMMENT ON COLUMN snowflake_status.borrowed_ids IS 'IDs with a timestamp ahead of the clock';
COMMENT ON COLUMN snowflake_status.history_ids IS 'IDs from past ticks, by clock_regression = history';
COMMENT ON COLUMN snowflake_status.clock_regressions IS 'how often the clock was found to have gone back';
COMMENT ON COLUMN snowflake_status.largest_regression IS 'by how much at most';
COMMENT ON COLUMN snowflake_status.last_regression_at IS 'what the clock showed when it had last gone back';
COMMENT ON COLUMN snowflake_status.waits IS 'how often calls waited for the clock: for the next tick (batches for each one), or to catch up';
COMMENT ON COLUMN snowflake_status.wait_time IS 'how long all of them waited together';
COMMENT ON COLUMN snowflake_status.refusals IS 'calls of snowflake_nextval() and snowflake_nextvals() that were refused';
COMMENT ON COLUMN snowflake_status.mark_extensions IS 'how often the durable mark was written';
COMMENT ON COLUMN snowflake_status.mark_wait_time IS 'how long calls waited for that together; the keeper''s work is not counted';
COMMENT ON COLUMN snowflake_status.stats_reset IS
    'when counting began: at the start of the server, after its last crash, or by snowflake_stats_reset()';
COMMENT ON COLUMN snowflake_status.state_directory IS
    'snowflake_pg.state_directory; shown to those who may read all settings';

-- For DBAs: refused to PUBLIC, and logged ----------------------------------------------------------------------------

CREATE FUNCTION snowflake_advance(past bigint, force boolean DEFAULT false) RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_advance_wrapper';
COMMENT ON FUNCTION snowflake_advance(bigint, boolean) IS
    'makes every new ID greater than this one, as setval() does for sequences: for IDs that were restored or came from elsewhere';

CREATE FUNCTION snowflake_accept_identity(force boolean DEFAULT false) RETURNS timestamptz
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_accept_identity_wrapper';
COMMENT ON FUNCTION snowflake_accept_identity(boolean) IS
    'vouches that no other server issues IDs of this worker, for a copied server, another cluster''s mark, or a changed layout; returns from when on IDs are issued';

CREATE FUNCTION snowflake_reset_state(floor timestamptz) RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_reset_state_wrapper';
COMMENT ON FUNCTION snowflake_reset_state(timestamptz) IS
    'puts a new durable mark in the place of a damaged one; the floor must be later than every ID this server has issued';

CREATE FUNCTION snowflake_accept_clock() RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_accept_clock_wrapper';
COMMENT ON FUNCTION snowflake_accept_clock() IS
    'believes the clock at once when it has jumped ahead by more than snowflake_pg.max_forward_jump';

CREATE FUNCTION snowflake_stats_reset() RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_stats_reset_wrapper';
COMMENT ON FUNCTION snowflake_stats_reset() IS
    'sets the counts in snowflake_status to zero';

REVOKE ALL ON FUNCTION
    snowflake_advance(bigint, boolean), snowflake_accept_identity(boolean), snowflake_reset_state(timestamptz),
    snowflake_accept_clock(), snowflake_stats_reset() FROM PUBLIC;

CREATE SEQUENCE snowflake_wal_mark;
COMMENT ON SEQUENCE snowflake_wal_mark IS
    'carries the durable mark, in Unix milliseconds, to standbys: see snowflake_pg.wal_mark; not for drawing numbers';
-- A mark that has gone through the log must not be lost with an older sequence, when the extension is created anew.
SELECT pg_catalog.setval('snowflake_wal_mark', (EXTRACT(epoch FROM durable_mark) * 1000)::bigint)
    FROM snowflake_status WHERE durable_mark IS NOT NULL;
