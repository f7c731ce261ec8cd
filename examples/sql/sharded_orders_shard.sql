-- A shard of the orders of a shop. To be run by a superuser on each shard, before sharded_orders_router.sql on the router:
--
--     psql -h shard-eu -U postgres -d shop -v region=eu -f sharded_orders_shard.sql
--     psql -h shard-us -U postgres -d shop -v region=us -f sharded_orders_shard.sql
--
-- Each shard has a worker of its own: snowflake_pg.worker_id. So IDs of all shards differ, and each says by which shard
-- and when it was issued.
--
-- The router logs in as the role `shop`, or as the one that -v user=... names. Give it a password on each shard, and let
-- it in by pg_hba.conf, with the method scram-sha-256:
--
--     psql -h shard-eu -U postgres -d shop -c '\password shop'

\set ON_ERROR_STOP on
\if :{?user} \else \set user shop \endif
\if :{?region}
\else
DO $$ BEGIN RAISE 'which region has this shard?' USING HINT = 'psql -v region=eu'; END $$;
\endif
CREATE EXTENSION IF NOT EXISTS snowflake_pg;

-- PostgreSQL does not check the bounds of partitions that are foreign tables. So an UPDATE of the region would leave a
-- row on the wrong shard, were it not for the CHECK.
CREATE TABLE customers (
    id bigint PRIMARY KEY DEFAULT snowflake_nextval(),
    region text NOT NULL CHECK (region = :'region'),
    name text NOT NULL
);

CREATE TABLE orders (
    id bigint PRIMARY KEY DEFAULT snowflake_nextval(),
    region text NOT NULL CHECK (region = :'region'),
    customer_id bigint NOT NULL REFERENCES customers,
    item text NOT NULL
);

-- The router sends NULL where it has no default. The defaults are for clients that insert here.
CREATE TRIGGER fill_id BEFORE INSERT ON customers FOR EACH ROW EXECUTE FUNCTION snowflake_fill('id');
CREATE TRIGGER fill_id BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION snowflake_fill('id');

SELECT pg_catalog.format('CREATE ROLE %I LOGIN', :'user') WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = :'user') \gexec
GRANT SELECT, INSERT, UPDATE, DELETE ON customers, orders TO :"user";
