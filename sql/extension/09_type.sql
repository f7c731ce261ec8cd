-- The type snowflake: a bigint that is a string in JSON, as JavaScript's numbers are exact only to 2^53
--
-- It uses the operators of int8, and its operator classes for btree, hash and brin, as varchar uses text's. With its
-- own classes, a join with a bigint could not use the index on the bigint.

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
    'bigint that is a string in JSON, so that JavaScript loses no digits';
COMMENT ON FUNCTION snowflake_in(cstring) IS 'I/O';
COMMENT ON FUNCTION snowflake_out(snowflake) IS 'I/O';
COMMENT ON FUNCTION snowflake_recv(internal) IS 'I/O';
COMMENT ON FUNCTION snowflake_send(snowflake) IS 'I/O';

-- Implicit in one direction only: where both types meet, as in UNION, the result is a bigint, whichever comes first.
CREATE CAST (snowflake AS bigint) WITHOUT FUNCTION AS IMPLICIT;
COMMENT ON CAST (snowflake AS bigint) IS 'the same bits';
CREATE CAST (bigint AS snowflake) WITHOUT FUNCTION AS ASSIGNMENT;
COMMENT ON CAST (bigint AS snowflake) IS 'the same bits';

-- For small constants: INSERT ... VALUES (1), and coalesce(id, 0), which remains a snowflake.
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

-- So that min and max are strings in JSON, too. They read all rows: an aggregate uses an index only by an operator of
-- its own type in the operator family of the index. ORDER BY id DESC LIMIT 1 reads one row.
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
