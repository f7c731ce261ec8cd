-- A shard of the orders of a shop. To be run by a superuser on each shard, before sharded_orders_router.sql:
--
--     psql -h shard-1 -U postgres -d shop -v shard=1 -f sharded_orders_shard.sql
--     psql -h shard-2 -U postgres -d shop -v shard=2 -f sharded_orders_shard.sql
--
-- Shards have the numbers 0 to 63. Shard 1 issues the IDs of worker 1: snowflake_pg.worker_id. Its standbys can have
-- the workers 65, 129, 193 ... for the time after their promotion: what counts is the remainder of 64.
--
-- The router logs in as the role `shop`, or as the one that -v user=... names. Give it a password on each shard, and
-- let it in by pg_hba.conf, with the method scram-sha-256:
--
--     psql -h shard-1 -U postgres -d shop -c '\password shop'

\set ON_ERROR_STOP on
\if :{?user} \else \set user shop \endif
\if :{?shard}
\else
DO $$ BEGIN RAISE 'which number has this shard?' USING HINT = 'psql -v shard=1'; END $$;
\endif
CREATE EXTENSION IF NOT EXISTS snowflake_pg;

-- PostgreSQL does not check the bounds of partitions that are foreign tables. Without the CHECK, a row with an ID of
-- another shard could be here, where nobody looks for it.
CREATE TABLE customers (
    id bigint PRIMARY KEY DEFAULT snowflake_nextval() CHECK (id >> 12 & 63::bigint = :'shard'::bigint),
    name text NOT NULL
);

CREATE TABLE orders (
    id bigint PRIMARY KEY DEFAULT snowflake_nextval() CHECK (id >> 12 & 63::bigint = :'shard'::bigint),
    customer_id bigint NOT NULL REFERENCES customers,
    item text NOT NULL
);
CREATE INDEX ON orders (customer_id);

-- The router sends NULL where it has no default. The defaults are for clients that insert here.
CREATE TRIGGER fill_id BEFORE INSERT ON customers FOR EACH ROW EXECUTE FUNCTION snowflake_fill('id');
CREATE TRIGGER fill_id BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION snowflake_fill('id');

SELECT pg_catalog.format('CREATE ROLE %I LOGIN', :'user')
    WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = :'user') \gexec
GRANT SELECT, INSERT, UPDATE, DELETE ON customers, orders TO :"user";
