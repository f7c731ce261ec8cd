-- Gives a large table Snowflake IDs, and widens its key and the columns that refer to it, while readers and writers
-- continue. For tables that snowflake_adopt.plan() would rewrite for too long. Replace the names:
--
--   orders (id integer PRIMARY KEY), items (order_id integer REFERENCES orders), notes (order_id integer ...)
--
-- psql -f adopt_in_batches.sql. Every step can be repeated until the last one, which takes all locks, for milliseconds.

\set ON_ERROR_STOP on
SET lock_timeout = '500ms';

-- 1. A second column beside each, which triggers keep equal to the first.
ALTER TABLE orders ADD COLUMN IF NOT EXISTS new_id bigint;
ALTER TABLE items ADD COLUMN IF NOT EXISTS new_order_id bigint;
ALTER TABLE notes ADD COLUMN IF NOT EXISTS new_order_id bigint;
CREATE OR REPLACE FUNCTION copy_id() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN NEW.new_id := NEW.id; RETURN NEW; END $$;
CREATE OR REPLACE FUNCTION copy_order_id() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN NEW.new_order_id := NEW.order_id; RETURN NEW; END $$;
CREATE OR REPLACE TRIGGER copy_id BEFORE INSERT OR UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION copy_id();
CREATE OR REPLACE TRIGGER copy_order_id BEFORE INSERT OR UPDATE ON items FOR EACH ROW EXECUTE FUNCTION copy_order_id();
CREATE OR REPLACE TRIGGER copy_order_id BEFORE INSERT OR UPDATE ON notes FOR EACH ROW EXECUTE FUNCTION copy_order_id();

-- 2. The rows that were there, in batches of pages, each a transaction of its own. A procedure that commits cannot set its
-- search_path, so the functions are named with pg_catalog: nobody else's are called.
CREATE OR REPLACE PROCEDURE fill(target regclass, new_column name, old_column name, pages integer DEFAULT 500)
    LANGUAGE plpgsql AS $$
DECLARE
    all_pages bigint := pg_catalog.pg_relation_size(target) / pg_catalog.current_setting('block_size')::bigint;
BEGIN
    FOR page IN 0 .. all_pages BY pages LOOP
        EXECUTE pg_catalog.format('UPDATE %s SET %I = %I WHERE ctid >= $1 AND ctid < $2 AND %2$I IS DISTINCT FROM %3$I',
            target, new_column, old_column)
            USING pg_catalog.format('(%s,0)', page)::tid, pg_catalog.format('(%s,0)', page + pages)::tid;
        COMMIT;
    END LOOP;
END
$$;
CALL fill('orders', 'new_id', 'id');
VACUUM orders;
CALL fill('items', 'new_order_id', 'order_id');
VACUUM items;
CALL fill('notes', 'new_order_id', 'order_id');
VACUUM notes;

-- 3. What the last step needs. Building an index waits for transactions, but no writer waits for it. If it was
-- interrupted, drop the INVALID index before you repeat this.
SET lock_timeout = 0;
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS orders_new_id ON orders (new_id);
CREATE INDEX CONCURRENTLY IF NOT EXISTS items_new_order_id ON items (new_order_id);
CREATE INDEX CONCURRENTLY IF NOT EXISTS notes_new_order_id ON notes (new_order_id);
SET lock_timeout = '500ms';
BEGIN;
-- Locks in the order in which most transactions take them. A constraint that is NOT VALID scans nothing.
LOCK TABLE orders, items, notes IN ACCESS EXCLUSIVE MODE;
ALTER TABLE orders DROP CONSTRAINT IF EXISTS new_id_set, ADD CONSTRAINT new_id_set CHECK (new_id IS NOT NULL) NOT VALID;
ALTER TABLE items DROP CONSTRAINT IF EXISTS items_orders,
    ADD CONSTRAINT items_orders FOREIGN KEY (new_order_id) REFERENCES orders (new_id) NOT VALID;
ALTER TABLE notes DROP CONSTRAINT IF EXISTS notes_orders,
    ADD CONSTRAINT notes_orders FOREIGN KEY (new_order_id) REFERENCES orders (new_id) NOT VALID;
COMMIT;
ALTER TABLE orders VALIDATE CONSTRAINT new_id_set;
ALTER TABLE items VALIDATE CONSTRAINT items_orders;
ALTER TABLE notes VALIDATE CONSTRAINT notes_orders;

-- 4. The second columns take the place of the first. Repeat this transaction if it gets no lock.
BEGIN;
LOCK TABLE orders, items, notes IN ACCESS EXCLUSIVE MODE;
DROP FUNCTION copy_id, copy_order_id CASCADE;
DROP PROCEDURE fill;
ALTER TABLE items DROP COLUMN order_id;
ALTER TABLE items RENAME new_order_id TO order_id;
ALTER TABLE notes DROP COLUMN order_id;
ALTER TABLE notes RENAME new_order_id TO order_id;
ALTER SEQUENCE orders_id_seq AS bigint OWNED BY orders.new_id;
ALTER TABLE orders ALTER COLUMN new_id SET NOT NULL;
ALTER TABLE orders DROP CONSTRAINT new_id_set, DROP CONSTRAINT orders_pkey;
ALTER TABLE orders ADD CONSTRAINT orders_pkey PRIMARY KEY USING INDEX orders_new_id;
ALTER TABLE orders DROP COLUMN id;
ALTER TABLE orders RENAME new_id TO id;
ALTER TABLE orders ALTER COLUMN id SET DEFAULT snowflake_nextval();
COMMIT;
RESET lock_timeout;
