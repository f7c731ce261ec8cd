-- Codes for outsiders, in URLs and on invoices, that show neither when an order was made, nor where, nor how many there
-- are. docs/formats.md explains it. Run this as a role that owns little else, and that no application uses.

BEGIN;

CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text);

-- Keys, in a schema of their own, so that a GRANT on all tables of another schema does not include them. Only their
-- owner reads them, and no statement ever contains one.
CREATE SCHEMA secret;
CREATE TABLE secret.id_keys (name text PRIMARY KEY, key bytea NOT NULL);
INSERT INTO secret.id_keys VALUES
    ('orders', pg_catalog.sha256(pg_catalog.uuid_send(pg_catalog.gen_random_uuid())
        || pg_catalog.uuid_send(pg_catalog.gen_random_uuid())));

-- Those who may call these functions can convert both ways, and do not see the key. Without its key, they fail: NULL
-- would look like an order that does not exist. Their names are looked up now, since they have a RETURN. A function
-- with a text as its body would look them up in the search_path of its caller, who could put names of his own there.
CREATE FUNCTION order_code(id bigint) RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL SAFE SECURITY DEFINER
    RETURN snowflake_to_text(
        snowflake_encrypt(id, coalesce((SELECT key FROM secret.id_keys WHERE name = 'orders'), '')), 'base62');

CREATE FUNCTION order_id(code text) RETURNS bigint
    LANGUAGE sql STABLE STRICT PARALLEL SAFE SECURITY DEFINER
    RETURN snowflake_decrypt(
        snowflake_from_text(code, 'base62'), coalesce((SELECT key FROM secret.id_keys WHERE name = 'orders'), ''));

REVOKE ALL ON FUNCTION order_code(bigint), order_id(text) FROM PUBLIC;

COMMIT;
