-- Where the row of an ID is, and IDs for a given place.

CREATE OR REPLACE FUNCTION ids.snowflake_must_be_shards(shards integer) RETURNS integer
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF shards < 1 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'shards must be greater than 0',
            DETAIL = format('The value is %s.', shards);
    END IF;
    RETURN shards;
END
$$;
COMMENT ON FUNCTION ids.snowflake_must_be_shards(integer) IS
    'not to be called directly: the error for fewer shards than one';

-- The seed of PostgreSQL's hash partitions, and 2^64 plus what it adds to the hash of a key of one column. All of it is
-- strict, so the planner inlines it.
CREATE OR REPLACE FUNCTION ids.snowflake_shard_of(id bigint, shards integer) RETURNS integer
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN ((hashint8extended(id, 8816678312871386365) + 23752253665144318179) % 18446744073709551616
        % ids.snowflake_must_be_shards(shards))::integer;
COMMENT ON FUNCTION ids.snowflake_shard_of(bigint, integer) IS
    'number of the shard of an ID, from 0 to shards - 1: the remainder of its hash partition, or its shard of PgDog';

-- Takes as many positions at a time as make it likely that one fits, since the lock costs more than a position. With a
-- tag, one is enough. A loop, since PostgreSQL would plan a query for each call.
CREATE OR REPLACE FUNCTION ids.snowflake_take_placed(modulus integer, remainder integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f CONSTANT ids.snowflake_fields := ids.snowflake_own_fields();
    mask CONSTANT bigint := ~(-1::bigint << f.sequence_bits);
    tags CONSTANT bigint := ~(-1::bigint << f.tag_bits);
    count CONSTANT bigint := CASE WHEN tags > 0 THEN 1 ELSE least(2 * modulus::bigint, mask + 1) END;
    since CONSTANT timestamptz := clock_timestamp();
    last bigint;
    number bigint;
    position bigint;
    fixed bigint;
    id bigint;
BEGIN
    LOOP
        last := ids.snowflake_take(count);
        -- mutant: hosted-place-layout-set
        IF ids.snowflake_own_fields() IS DISTINCT FROM f THEN
            -- The layout was set while this waited.
            RETURN ids.snowflake_take_placed(modulus, remainder);
        END IF;
        number := (last >> f.sequence_shift) & mask;
        position := (((last >> f.timestamp_shift) << f.sequence_bits) | number) - count + 1;
        fixed := last & ((1::bigint << f.timestamp_shift) - 1) & ~(mask << f.sequence_shift);
        FOR n IN 0..CASE WHEN tags > 0 THEN least(tags, 4095) ELSE count - 1 END LOOP
            IF tags > 0 THEN
                id := last | (((number + n) & tags) << f.tag_shift);
            ELSE
                id := fixed | (((position + n) >> f.sequence_bits) << f.timestamp_shift)
                    | (((position + n) & mask) << f.sequence_shift);
            END IF;
            IF ids.snowflake_shard_of(id, modulus) = remainder THEN
                -- For snowflake_lastval(), whose IDs have no tag.
                PERFORM set_config('hosted_snowflake.block', last || ' ' || id, false) WHERE tags = 0 AND id <> last;
                RETURN id;
            END IF;
        END LOOP;
        IF clock_timestamp() > since + interval '1 ms' * ids.snowflake_max_wait_ms() THEN
            RAISE EXCEPTION USING ERRCODE = 'configuration_limit_exceeded',
                MESSAGE = 'none of the next IDs falls into this place',
                DETAIL = format('The call has waited %s ms for one.',
                    floor(extract(epoch FROM clock_timestamp() - since) * 1000)),
                HINT = 'Use fewer shards or partitions, or a layout with a tag, such as h8.';
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION ids.snowflake_take_placed(integer, integer) IS
    'not to be called directly: takes an ID with this remainder of the hash';

CREATE OR REPLACE FUNCTION ids.snowflake_nextval_for_shard(shards integer, shard integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF shard NOT BETWEEN 0 AND ids.snowflake_must_be_shards(shards) - 1 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('shard must be between 0 and %s', shards - 1),
            DETAIL = format('The value is %s.', shard);
    END IF;
    RETURN ids.snowflake_take_placed(shards, shard);
END
$$;
COMMENT ON FUNCTION ids.snowflake_nextval_for_shard(integer, integer) IS
    'next ID that falls into shard number shard, from 0 to shards - 1: the hash partition with this modulus and '
    'remainder, or the shard of PgDog';

-- Modulus and remainder of a hash partition. Of a table that is partitioned, the greatest modulus, of which each other
-- one is a factor, and NULL.
CREATE OR REPLACE FUNCTION ids.snowflake_place_of(relation regclass, OUT name text, OUT modulus integer,
    OUT remainder integer)
    LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bound CONSTANT text := '^FOR VALUES WITH \(modulus (\d+), remainder (\d+)\)$';
    parent oid := relation;
    why text;
BEGIN
    SELECT format('%I.%I', nspname, relname), parts[1]::integer, parts[2]::integer INTO name, modulus, remainder
        FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
            LEFT JOIN LATERAL regexp_match(pg_get_expr(relpartbound, c.oid), bound) parts ON true
        WHERE c.oid = relation;
    IF remainder IS NOT NULL THEN
        parent := (SELECT inhparent FROM pg_inherits WHERE inhrelid = relation);
    ELSE
        modulus := coalesce((SELECT max((regexp_match(pg_get_expr(relpartbound, oid), bound))[1]::integer)
            FROM pg_inherits JOIN pg_class ON oid = inhrelid WHERE inhparent = relation), 1);
    END IF;
    SELECT CASE
            WHEN partstrat <> 'h' OR partnatts <> 1 OR partattrs[0] = 0
                THEN 'It is not partitioned by hash of a single column.'
            WHEN NOT EXISTS (SELECT FROM pg_amproc JOIN pg_opclass c ON amprocfamily = opcfamily
                WHERE c.oid = partclass[0] AND amproclefttype = opcintype AND amprocrighttype = opcintype
                    AND amprocnum = 2 AND amproc = 'hashint8extended'::regproc)
            THEN 'Its partition key is not a bigint or snowflake.'
            -- The columns of its key, also those in expressions, depend on the table.
            WHEN EXISTS (SELECT FROM pg_partition_ancestors(parent) JOIN pg_depend ON objid = relid AND refobjid = relid
                JOIN pg_attribute a ON a.attrelid = relid AND a.attnum = objsubid
                JOIN pg_attribute own ON own.attrelid = parent AND own.attnum = p.partattrs[0]
                    AND own.attname = a.attname
                WHERE relid <> parent AND classid = 'pg_class'::regclass AND refclassid = 'pg_class'::regclass
                    AND deptype = 'i')
            THEN 'A table above is partitioned by the same column.' END
        INTO why FROM pg_partitioned_table p WHERE p.partrelid = parent;
    IF NOT FOUND OR why IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'wrong_object_type',
            MESSAGE = format('which IDs fall into %s is not known', coalesce(name, relation::oid::text)),
            DETAIL = coalesce(why, 'It is not partitioned by hash of a single column.'),
            HINT = 'Name a partition of a table that is partitioned by hash of its ID.';
    END IF;
END
$$;
COMMENT ON FUNCTION ids.snowflake_place_of(regclass) IS
    'not to be called directly: which IDs fall into a hash partition';

CREATE OR REPLACE FUNCTION ids.snowflake_nextval_for(relation regclass) RETURNS bigint
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place record := ids.snowflake_place_of(relation);
BEGIN
    IF place.remainder IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'wrong_object_type',
            MESSAGE = format('%s is not a partition, so each ID falls into it', place.name),
            HINT = 'Name a partition, or pass the ID of a row in the same place.';
    END IF;
    RETURN ids.snowflake_take_placed(place.modulus, place.remainder);
END
$$;
COMMENT ON FUNCTION ids.snowflake_nextval_for(regclass) IS 'next ID that falls into a hash partition';

CREATE OR REPLACE FUNCTION ids.snowflake_nextval_for(relation regclass, near bigint) RETURNS bigint
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place record := ids.snowflake_place_of(relation);
    wanted CONSTANT integer := ids.snowflake_shard_of(near, place.modulus);
BEGIN
    IF place.remainder <> wanted THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('the row with this ID is not in %s', place.name),
            DETAIL = format('The ID is %s.', near), HINT = 'Name the table that is partitioned.';
    END IF;
    RETURN ids.snowflake_take_placed(place.modulus, wanted);
END
$$;
COMMENT ON FUNCTION ids.snowflake_nextval_for(regclass, bigint) IS
    'next ID that falls into the hash partition of this table that has the row with the ID near';
