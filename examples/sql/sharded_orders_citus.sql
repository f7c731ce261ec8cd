-- The orders of a shop on Citus, distributed by customer. A customer is on the node to which the INSERT was sent, and
-- so are the orders. To be run on the coordinator, with snowflake_pg.worker_id = 'citus' on all nodes:
--
--     psql -h coordinator -d shop -f sharded_orders_citus.sql

\set ON_ERROR_STOP on
CREATE EXTENSION IF NOT EXISTS snowflake_pg;

-- A text, since Citus creates the shards on a node before the table.
CREATE TABLE customers (
    id bigint PRIMARY KEY DEFAULT snowflake_nextval_for('public.customers'::text),
    name text NOT NULL
);

CREATE TABLE orders (
    id bigint NOT NULL DEFAULT snowflake_nextval(),
    customer_id bigint NOT NULL REFERENCES customers,
    item text NOT NULL,
    PRIMARY KEY (customer_id, id)
);

SELECT create_distributed_table('customers', 'id');
SELECT create_distributed_table('orders', 'customer_id', colocate_with => 'customers');
