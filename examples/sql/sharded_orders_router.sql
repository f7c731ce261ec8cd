-- The router of a shop whose orders are on two shards, by region. To be run by a superuser, after
-- sharded_orders_shard.sql:
--
--     psql -h router -U postgres -d shop -v eu=shard-eu -v us=shard-us -v password="$PASSWORD" \
--         -f sharded_orders_router.sql
--
-- The password is that of the role `shop` on the shards. Other variables: `user` for another role, `port` (5432) and
-- `database` (shop) of the shards. Applications connect to the router as the same role; it needs a password here, too:
--
--     psql -h router -U postgres -d shop -c '\password shop'
--
-- The router needs neither the extension nor a worker: the shards issue the IDs.

\set ON_ERROR_STOP on
\if :{?database} \else \set database shop \endif
\if :{?port} \else \set port 5432 \endif
\if :{?user} \else \set user shop \endif
CREATE EXTENSION IF NOT EXISTS postgres_fdw;
SELECT pg_catalog.format('CREATE ROLE %I LOGIN', :'user') WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = :'user') \gexec

CREATE SERVER eu FOREIGN DATA WRAPPER postgres_fdw
    OPTIONS (host :'eu', port :'port', dbname :'database', batch_size '100');
CREATE SERVER us FOREIGN DATA WRAPPER postgres_fdw
    OPTIONS (host :'us', port :'port', dbname :'database', batch_size '100');
CREATE USER MAPPING FOR :"user" SERVER eu OPTIONS (user :'user', password :'password');
CREATE USER MAPPING FOR :"user" SERVER us OPTIONS (user :'user', password :'password');

CREATE TABLE customers (id bigint, region text NOT NULL, name text NOT NULL) PARTITION BY LIST (region);
CREATE FOREIGN TABLE customers_eu PARTITION OF customers FOR VALUES IN ('eu') SERVER eu OPTIONS (table_name 'customers');
CREATE FOREIGN TABLE customers_us PARTITION OF customers FOR VALUES IN ('us') SERVER us OPTIONS (table_name 'customers');

CREATE TABLE orders (id bigint, region text NOT NULL, customer_id bigint NOT NULL, item text NOT NULL)
    PARTITION BY LIST (region);
CREATE FOREIGN TABLE orders_eu PARTITION OF orders FOR VALUES IN ('eu') SERVER eu OPTIONS (table_name 'orders');
CREATE FOREIGN TABLE orders_us PARTITION OF orders FOR VALUES IN ('us') SERVER us OPTIONS (table_name 'orders');
GRANT SELECT, INSERT, UPDATE, DELETE ON customers, orders TO :"user";

-- An order, with the IDs that the shard has issued:
--
--     WITH customer AS (INSERT INTO customers (region, name) VALUES ('eu', 'Ada') RETURNING id, region)
--     INSERT INTO orders (region, customer_id, item) SELECT region, id, 'tea' FROM customer RETURNING *;
--
-- A customer who moves to another region is refused by the shard: insert a row there, and delete the old one.
