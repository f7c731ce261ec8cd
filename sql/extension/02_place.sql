-- Where the row of an ID is: operator classes by which a table is partitioned, and IDs for a given place
--
-- A class has its field in the name of an argument, and no parameter has a say in it: rows must be found after a dump,
-- on another server, under another layout. So a name such as bits_12_to_21, which the C function reads, can never
-- change.

CREATE FUNCTION snowflake_flat_worker_hash(bits_12_to_21 bigint) RETURNS integer
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_field_hash';
COMMENT ON FUNCTION snowflake_flat_worker_hash(bigint) IS 'not to be called: hash of snowflake_flat_worker_ops';
CREATE FUNCTION snowflake_flat_worker_hash_extended(bits_12_to_21 bigint, seed bigint) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_field_hash_extended';
COMMENT ON FUNCTION snowflake_flat_worker_hash_extended(bigint, bigint) IS
    'not to be called: hash of snowflake_flat_worker_ops by which PostgreSQL partitions';
CREATE OPERATOR CLASS snowflake_flat_worker_ops FOR TYPE bigint USING hash AS
    OPERATOR 1 pg_catalog.=(bigint, bigint),
    FUNCTION 1 snowflake_flat_worker_hash(bigint),
    FUNCTION 2 snowflake_flat_worker_hash_extended(bigint, bigint);
COMMENT ON OPERATOR CLASS snowflake_flat_worker_ops USING hash IS
    'for PARTITION BY HASH (id snowflake_flat_worker_ops): by the worker of layout flat, or data center and worker of '
    'twitter';
COMMENT ON OPERATOR FAMILY snowflake_flat_worker_ops USING hash IS 'by the worker of layout flat';

CREATE FUNCTION snowflake_bits_of(field text, layout text) RETURNS text
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_bits_of_wrapper';
COMMENT ON FUNCTION snowflake_bits_of(text, text) IS
    'not to be called: name of the argument of a hash function that hashes this field of the IDs of a layout';

-- The schema is a name: a regnamespace would let DROP SCHEMA public CASCADE drop the extension.
CREATE FUNCTION snowflake_create_operator_class(class_name name, field text, schema name, layout text)
    RETURNS void LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ours text := (SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace
        WHERE extname = 'snowflake_pg');
    argument text;
BEGIN
    EXECUTE format('SELECT %s.snowflake_bits_of($1, $2)', ours) INTO argument USING field, layout;
    EXECUTE format('CREATE FUNCTION %I.%I(%I bigint) RETURNS integer LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS %L, '
        '%L',
        schema, class_name || '_hash', argument, '$libdir/snowflake_pg', 'snowflake_field_hash');
    EXECUTE format('CREATE FUNCTION %I.%I(%I bigint, seed bigint) RETURNS bigint LANGUAGE c IMMUTABLE STRICT PARALLEL '
        'SAFE AS %L, %L',
        schema, class_name || '_hash_extended', argument, '$libdir/snowflake_pg', 'snowflake_field_hash_extended');
    -- For DROP EXTENSION to fail as long as there is a table that is partitioned by the class.
    EXECUTE format('ALTER FUNCTION %I.%I(bigint) DEPENDS ON EXTENSION snowflake_pg', schema, class_name || '_hash');
    EXECUTE format('ALTER FUNCTION %I.%I(bigint, bigint) DEPENDS ON EXTENSION snowflake_pg', schema,
        class_name || '_hash_extended');
    EXECUTE format('CREATE OPERATOR CLASS %1$I.%2$I FOR TYPE bigint USING hash AS OPERATOR 1 pg_catalog.=(bigint,
        bigint),
        FUNCTION 1 %1$I.%3$I(bigint), FUNCTION 2 %1$I.%4$I(bigint, bigint)', schema, class_name, class_name || '_hash',
            class_name || '_hash_extended');
    EXECUTE format('COMMENT ON OPERATOR CLASS %I.%I USING hash IS %L', schema, class_name,
        format('by the %s of layout %s', field, layout));
END
$$;
COMMENT ON FUNCTION snowflake_create_operator_class(name, text, name, text) IS
    'create an operator class for PARTITION BY HASH (id class) by a field of the IDs of a layout: a partition has the '
    'IDs whose field % modulus is its remainder; for superusers';

REVOKE ALL ON FUNCTION snowflake_bits_of(text, text), snowflake_create_operator_class(name, text, name, text)
    FROM PUBLIC;

CREATE FUNCTION snowflake_nextval_in_copy(internal, regclass) RETURNS bigint
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_nextval_for_in_copy_wrapper';
COMMENT ON FUNCTION snowflake_nextval_in_copy(internal, regclass) IS
    'not to be called: snowflake_nextval_for(relation) as COPY calls it';
CREATE FUNCTION snowflake_nextval_for(relation regclass) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE SUPPORT snowflake_nextval_support
    AS 'MODULE_PATHNAME', 'snowflake_nextval_for_wrapper';
COMMENT ON FUNCTION snowflake_nextval_for(regclass) IS
    'next ID that falls into this hash partition, or into a shard on this node of this table, which Citus distributes '
    'by ID';

CREATE FUNCTION snowflake_nextval_for(relation regclass, near bigint) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE SUPPORT snowflake_nextval_support
    AS 'MODULE_PATHNAME', 'snowflake_nextval_near_wrapper';
COMMENT ON FUNCTION snowflake_nextval_for(regclass, bigint) IS
    'next ID that falls into the hash partition of this table, or the shard of Citus, that has the row with the ID '
    'near';

CREATE FUNCTION snowflake_nextval_in_copy(internal, integer, integer) RETURNS bigint
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_nextval_for_shard_in_copy_wrapper';
COMMENT ON FUNCTION snowflake_nextval_in_copy(internal, integer, integer) IS
    'not to be called: snowflake_nextval_for_shard(shards, shard) as COPY calls it';
CREATE FUNCTION snowflake_nextval_for_shard(shards integer, shard integer) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE SUPPORT snowflake_nextval_support
    AS 'MODULE_PATHNAME', 'snowflake_nextval_for_shard_wrapper';
COMMENT ON FUNCTION snowflake_nextval_for_shard(integer, integer) IS
    'next ID that falls into shard number shard, from 0 to shards - 1: the hash partition with this modulus and '
    'remainder, or the shard of PgDog';

CREATE FUNCTION snowflake_shard_of(id bigint, shards integer) RETURNS integer
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_shard_of_wrapper';
COMMENT ON FUNCTION snowflake_shard_of(bigint, integer) IS
    'number of the shard of an ID, from 0 to shards - 1: the remainder of its hash partition, or its shard of PgDog';
