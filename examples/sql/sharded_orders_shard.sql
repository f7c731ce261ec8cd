-- A shard of the orders of a shop. To be run on each shard, before sharded_orders_router.sql on the router:
--
--     psql -h shard-eu -d shop -f sharded_orders_shard.sql
--
-- Each shard has a worker of its own: snowflake_pg.worker_id. So IDs of all shards differ, and each says by which shard
-- and when it was issued.

\set ON_ERROR_STOP on
CREATE EXTENSION IF NOT EXISTS snowflake_pg;

CREATE TABLE customers (
    id bigint PRIMARY KEY DEFAULT snowflake_nextval(),
    region text NOT NULL,
    name text NOT NULL
);

CREATE TABLE orders (
    id bigint PRIMARY KEY DEFAULT snowflake_nextval(),
    region text NOT NULL,
    customer_id bigint NOT NULL REFERENCES customers,
    item text NOT NULL
);

-- The router sends NULL where it has no default. The defaults are for clients that insert here.
CREATE TRIGGER fill_id BEFORE INSERT ON customers FOR EACH ROW EXECUTE FUNCTION snowflake_fill('id');
CREATE TRIGGER fill_id BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION snowflake_fill('id');
