-- Codes for outsiders, in URLs and on invoices, that show neither when an order was made, nor where, nor how many there
-- are. docs/outsiders.md explains it. Run this as a role that owns little else, and that no application uses.

BEGIN;

CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text);

-- Keys, in a schema of their own, so that a GRANT on all tables of another schema does not include them. Only their owner
-- reads them, and no statement ever contains one.
CREATE SCHEMA secret;
CREATE TABLE secret.id_keys (name text PRIMARY KEY, key bytea NOT NULL);
INSERT INTO secret.id_keys VALUES
    ('orders', sha256(decode(replace(gen_random_uuid()::text || gen_random_uuid(), '-', ''), 'hex')));

-- Without its key, an ERROR: NULL would look like an order that does not exist.
CREATE FUNCTION secret.id_key(name text) RETURNS bytea LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE AS $$
DECLARE
    found bytea := (SELECT key FROM secret.id_keys WHERE id_keys.name = id_key.name);
BEGIN
    IF found IS NULL THEN
        RAISE EXCEPTION 'there is no key for %', name;
    END IF;
    RETURN found;
END
$$;

-- Those who may call these functions can convert both ways, and do not see the key.
CREATE FUNCTION order_code(id bigint) RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL SAFE SECURITY DEFINER
    RETURN snowflake_to_text(snowflake_encrypt(id, secret.id_key('orders')), 'base62');

CREATE FUNCTION order_id(code text) RETURNS bigint
    LANGUAGE sql STABLE STRICT PARALLEL SAFE SECURITY DEFINER
    RETURN snowflake_decrypt(snowflake_from_text(code, 'base62'), secret.id_key('orders'));

REVOKE ALL ON FUNCTION order_code(bigint), order_id(text) FROM PUBLIC;

COMMIT;
