-- Adopting online: the rows that were there before, in batches

CREATE FUNCTION snowflake_adopt.copy_blocks(relation oid, first bigint, after bigint, columns smallint[],
    besides smallint[]) RETURNS bigint[]
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_adopt_copy_blocks_wrapper';
COMMENT ON FUNCTION snowflake_adopt.copy_blocks(oid, bigint, bigint, smallint[], smallint[]) IS
    'not to be called: copies columns into those beside them, in these blocks of a table, as its owner and without its '
    'triggers; how many rows were copied, and how many others had locked';

-- The tables and partitions that contain the rows of a migration.
CREATE FUNCTION snowflake_adopt.leaves(migration regclass, OUT root regclass, OUT leaf regclass) RETURNS SETOF record
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE members(root, member) AS (
        SELECT DISTINCT b.relation, b.relation::oid FROM snowflake_adopt.beside b WHERE b.migration = leaves.migration
        UNION
        SELECT m.root, inhrelid FROM members m JOIN pg_inherits ON inhparent = member)
    SELECT m.root, member::regclass FROM members m JOIN pg_class ON oid = member AND relkind = 'r'
$$;
COMMENT ON FUNCTION snowflake_adopt.leaves(regclass) IS
    'not to be called: the tables and partitions that contain the rows of a migration, and the tables that they belong '
    'to';

CREATE FUNCTION snowflake_adopt.rows_to_do(migration regclass) RETURNS SETOF text
    LANGUAGE sql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN c.relation IS NULL THEN format('SELECT snowflake_adopt.measure(%s)', rows_to_do.migration::oid)
        ELSE format('SELECT snowflake_adopt.copy(%s, %s)', root::oid, leaf::oid) END
    FROM snowflake_adopt.leaves(rows_to_do.migration) LEFT JOIN snowflake_adopt.copying c ON c.relation = leaf
    WHERE c.relation IS NULL OR NOT isempty(c.todo + c.again)
    -- What others had locked is tried again when nothing else is left.
    ORDER BY c.relation IS NOT NULL, isempty(c.todo), leaf
$$;
COMMENT ON FUNCTION snowflake_adopt.rows_to_do(regclass) IS
    'not to be called: the commands that copy the next rows of a migration';

-- One batch. What others have locked is left for later, so that neither waits for the other.
CREATE FUNCTION snowflake_adopt.copy(root oid, leaf oid) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    begun timestamptz := clock_timestamp();
    c snowflake_adopt.copying := snowflake_adopt.copying_of(leaf);
    span int8range := (SELECT s FROM unnest(c.todo) s ORDER BY s LIMIT 1);
    piece int8multirange := int8multirange(int8range(lower(span), least(lower(span) + c.batch, upper(span))));
    copied bigint[];
    spent interval;
BEGIN
    -- In a security-restricted operation, which ends with the copy, nothing can be deferred.
    SET CONSTRAINTS ALL IMMEDIATE;
    SELECT snowflake_adopt.copy_blocks(leaf, lower(piece), upper(piece), array_agg(narrow.attnum),
        array_agg(wide.attnum))
        INTO copied FROM snowflake_adopt.beside b JOIN pg_attribute narrow ON narrow.attrelid = leaf
            AND narrow.attname = column_name
        JOIN pg_attribute wide ON wide.attrelid = leaf AND wide.attname = beside WHERE relation = root
            AND span IS NOT NULL;
    spent := clock_timestamp() - begun;
    UPDATE snowflake_adopt.copying SET todo = todo - piece,
        again = again + CASE WHEN copied[2] > 0 THEN piece ELSE '{}' END,
        rows = rows + copied[1], took = spent, busy = busy + spent,
        batch = CASE WHEN spent < interval '50 ms' THEN least(batch * 2, 16384) WHEN spent > interval '100 ms'
            THEN greatest(batch / 2, 1) ELSE batch END
        WHERE relation = leaf AND span IS NOT NULL;
END
$$;
COMMENT ON FUNCTION snowflake_adopt.copy(oid, oid) IS
    'not to be called: copies the next batch of rows of a table or partition';

CREATE FUNCTION snowflake_adopt.blocks(leaf oid) RETURNS bigint
    LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_relation_size(leaf) / current_setting('block_size')::bigint
$$;
COMMENT ON FUNCTION snowflake_adopt.blocks(oid) IS 'not to be called: how many blocks a table has';

-- Where the rows of all tables are, before the first one is copied. What was written since its trigger began has both
-- columns, so nothing that comes behind the last block matters.
CREATE FUNCTION snowflake_adopt.measure(migration oid) RETURNS void
    LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO snowflake_adopt.copying (migration, relation, filenode, blocks, todo)
    SELECT migration, leaf, pg_relation_filenode(leaf), blocks, int8multirange(int8range(0, blocks))
    FROM snowflake_adopt.leaves(migration) CROSS JOIN LATERAL snowflake_adopt.blocks(leaf) blocks
    WHERE NOT EXISTS (SELECT FROM snowflake_adopt.copying c WHERE c.relation = leaf)
$$;
COMMENT ON FUNCTION snowflake_adopt.measure(oid) IS
    'not to be called: notes which blocks of the tables of a migration are to be copied';

-- When all rows move to other blocks, the work begins again.
CREATE FUNCTION snowflake_adopt.copying_of(leaf oid) RETURNS snowflake_adopt.copying
    LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    UPDATE snowflake_adopt.copying c SET
        blocks = CASE WHEN c.filenode = found.filenode THEN c.blocks ELSE found.blocks END,
        todo = CASE WHEN c.filenode <> found.filenode THEN int8multirange(int8range(0, found.blocks))
            WHEN isempty(c.todo) THEN c.again ELSE c.todo END,
        again = CASE WHEN c.filenode <> found.filenode OR isempty(c.todo) THEN '{}' ELSE c.again END,
        filenode = found.filenode
    FROM (SELECT pg_relation_filenode(leaf), snowflake_adopt.blocks(leaf)) found(filenode, blocks)
    WHERE relation = leaf RETURNING c
$$;
COMMENT ON FUNCTION snowflake_adopt.copying_of(oid) IS
    'not to be called: which blocks of a table are still to be copied';

-- As much as everybody may know: pg_stat_replication shows the rest to pg_read_all_stats.
CREATE FUNCTION snowflake_adopt.lagging(max_lag interval) RETURNS text
    LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('a standby or subscriber, which is %s behind', date_trunc('second', max(replay_lag)))
        FROM pg_stat_replication
    WHERE replay_lag > max_lag HAVING count(*) > 0
$$;
COMMENT ON FUNCTION snowflake_adopt.lagging(interval) IS
    'not to be called: that a standby or subscriber is more than this behind; NULL if none is';

CREATE FUNCTION snowflake_adopt.throttle(m snowflake_adopt.migration, OUT waits_for text, OUT is_held boolean,
    OUT wait_ms bigint)
    LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(behind, CASE WHEN is_left THEN 'rows that others have locked' END), behind IS NOT NULL,
        CASE WHEN behind IS NOT NULL THEN 1000 WHEN is_left THEN 200
            ELSE coalesce((SELECT extract(epoch FROM max(took)) * 1000 * (100 - m.share) / m.share
                FROM snowflake_adopt.copying
                WHERE migration = m.relation AND NOT isempty(todo)), 0) END::bigint
    FROM (SELECT snowflake_adopt.lagging(m.max_lag),
        EXISTS (SELECT FROM snowflake_adopt.copying WHERE migration = m.relation)
            AND NOT EXISTS (SELECT FROM snowflake_adopt.copying WHERE migration = m.relation
                AND NOT isempty(todo))) state(behind, is_left)
$$;
COMMENT ON FUNCTION snowflake_adopt.throttle(snowflake_adopt.migration) IS
    'not to be called: what a migration waits for, whether the next batch must wait for it, and how long after the '
    'batch';
