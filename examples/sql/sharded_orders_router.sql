-- The router of a shop whose orders are on two shards, by region. To be run after sharded_orders_shard.sql:
--
--     psql -h router -d shop -v eu=shard-eu -v us=shard-us -f sharded_orders_router.sql
--
-- The router needs neither the extension nor a worker: the shards issue the IDs.

\set ON_ERROR_STOP on
\if :{?database} \else \set database shop \endif
\if :{?user} \else \set user shop \endif
CREATE EXTENSION IF NOT EXISTS postgres_fdw;

CREATE SERVER eu FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host :'eu', dbname :'database', batch_size '100');
CREATE SERVER us FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host :'us', dbname :'database', batch_size '100');
CREATE USER MAPPING FOR CURRENT_USER SERVER eu OPTIONS (user :'user');
CREATE USER MAPPING FOR CURRENT_USER SERVER us OPTIONS (user :'user');

CREATE TABLE customers (id bigint, region text NOT NULL, name text NOT NULL) PARTITION BY LIST (region);
CREATE FOREIGN TABLE customers_eu PARTITION OF customers FOR VALUES IN ('eu') SERVER eu OPTIONS (table_name 'customers');
CREATE FOREIGN TABLE customers_us PARTITION OF customers FOR VALUES IN ('us') SERVER us OPTIONS (table_name 'customers');

CREATE TABLE orders (id bigint, region text NOT NULL, customer_id bigint NOT NULL, item text NOT NULL)
    PARTITION BY LIST (region);
CREATE FOREIGN TABLE orders_eu PARTITION OF orders FOR VALUES IN ('eu') SERVER eu OPTIONS (table_name 'orders');
CREATE FOREIGN TABLE orders_us PARTITION OF orders FOR VALUES IN ('us') SERVER us OPTIONS (table_name 'orders');

-- An order, with the IDs that the shard has issued:
--
--     WITH customer AS (INSERT INTO customers (region, name) VALUES ('eu', 'Ada') RETURNING id, region)
--     INSERT INTO orders (region, customer_id, item) SELECT region, id, 'tea' FROM customer RETURNING *;
