-- Codes for outsiders, in URLs and on invoices, that show neither when an order was made, nor where, nor how many there
-- are. docs/outsiders.md explains it.

CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text);

-- Keys, which only the owner of this table reads. No statement ever contains one.
CREATE TABLE id_keys (name text PRIMARY KEY, key bytea NOT NULL);
REVOKE ALL ON id_keys FROM PUBLIC;
INSERT INTO id_keys VALUES
    ('orders', sha256(decode(replace(gen_random_uuid()::text || gen_random_uuid(), '-', ''), 'hex')));

-- Those who may call these functions can convert both ways, and do not see the key.
CREATE FUNCTION order_code(id bigint) RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL SAFE SECURITY DEFINER
    RETURN (SELECT snowflake_to_text(snowflake_encrypt(id, key), 'base62') FROM id_keys WHERE name = 'orders');

CREATE FUNCTION order_id(code text) RETURNS bigint
    LANGUAGE sql STABLE STRICT PARALLEL SAFE SECURITY DEFINER
    RETURN (SELECT snowflake_decrypt(snowflake_from_text(code, 'base62'), key) FROM id_keys WHERE name = 'orders');

REVOKE ALL ON FUNCTION order_code(bigint), order_id(text) FROM PUBLIC;
