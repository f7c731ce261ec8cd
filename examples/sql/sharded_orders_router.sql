-- The router of a shop whose customers and orders are found by their IDs, each on one shard. To be run by a superuser
-- for each shard, after sharded_orders_shard.sql, and for each new shard later on:
--
--     psql -h router -U postgres -d shop -v shard=1 -v host=shard-1 -v password="$PASSWORD" \
--         -f sharded_orders_router.sql
--     psql -h router -U postgres -d shop -v shard=2 -v host=shard-2 -v password="$PASSWORD" \
--         -f sharded_orders_router.sql
--
-- The password is that of the role `shop` on the shard. Other variables: `user` for another role, `port` (5432) and
-- `database` (shop) of the shard. Applications connect to the router as the same role; it needs a password here, too:
--
--     psql -h router -U postgres -d shop -c '\password shop'
--
-- The router needs the extension, but no worker and no shared_preload_libraries: the shards issue the IDs.

\set ON_ERROR_STOP on
\if :{?database} \else \set database shop \endif
\if :{?port} \else \set port 5432 \endif
\if :{?user} \else \set user shop \endif
CREATE EXTENSION IF NOT EXISTS postgres_fdw;
CREATE EXTENSION IF NOT EXISTS snowflake_pg;
SELECT pg_catalog.format('CREATE ROLE %I LOGIN', :'user')
    WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = :'user') \gexec

-- An order is on the shard of its customer, which issues its ID. So both of its IDs say where it is, and there are two
-- tables on the router: to join customers, and to find an order by its own ID. Both are the same rows.
CREATE TABLE IF NOT EXISTS customers (id bigint, name text NOT NULL) PARTITION BY HASH (id snowflake_flat_worker_ops);
CREATE TABLE IF NOT EXISTS orders (id bigint, customer_id bigint NOT NULL, item text NOT NULL)
    PARTITION BY HASH (customer_id snowflake_flat_worker_ops);
CREATE TABLE IF NOT EXISTS orders_by_id (id bigint, customer_id bigint NOT NULL, item text NOT NULL)
    PARTITION BY HASH (id snowflake_flat_worker_ops);
GRANT SELECT, INSERT, UPDATE, DELETE ON customers, orders, orders_by_id TO :"user";

-- A join of customers and orders then goes partition by partition, each to its shard.
ALTER DATABASE :"DBNAME" SET enable_partitionwise_join = on;

SELECT pg_catalog.concat('shard_', :'shard') AS server, pg_catalog.concat('customers_', :'shard') AS customers,
    pg_catalog.concat('orders_', :'shard') AS orders, pg_catalog.concat('orders_by_id_', :'shard') AS orders_by_id \gset
CREATE SERVER :"server" FOREIGN DATA WRAPPER postgres_fdw
    OPTIONS (host :'host', port :'port', dbname :'database', batch_size '100', extensions 'snowflake_pg');
CREATE USER MAPPING FOR :"user" SERVER :"server" OPTIONS (user :'user', password :'password');
CREATE FOREIGN TABLE :"customers" PARTITION OF customers FOR VALUES WITH (MODULUS 64, REMAINDER :shard)
    SERVER :"server" OPTIONS (table_name 'customers');
CREATE FOREIGN TABLE :"orders" PARTITION OF orders FOR VALUES WITH (MODULUS 64, REMAINDER :shard)
    SERVER :"server" OPTIONS (table_name 'orders');
CREATE FOREIGN TABLE :"orders_by_id" PARTITION OF orders_by_id FOR VALUES WITH (MODULUS 64, REMAINDER :shard)
    SERVER :"server" OPTIONS (table_name 'orders');
GRANT SELECT, INSERT, UPDATE, DELETE ON :"customers" TO :"user";

-- A customer on shard 1, and an order beside it. The shard issues both IDs:
--
--     WITH customer AS (INSERT INTO customers_1 (name) VALUES ('Ada') RETURNING id)
--     INSERT INTO orders (customer_id, item) SELECT id, 'tea' FROM customer RETURNING *;
--
-- Each of these asks one shard:
--
--     SELECT * FROM customers WHERE id = $1;
--     SELECT name, item FROM customers JOIN orders ON customer_id = customers.id WHERE customers.id = $1;
--     DELETE FROM orders_by_id WHERE id = $1;
